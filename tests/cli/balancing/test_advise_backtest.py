"""``advise backtest``: size advice on a scenario of several days."""

import json
from typing import Any

from click.testing import CliRunner

from broker_ctl.cli.main import main


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["advise", "backtest", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_ends_with_what_the_advice_was_worth() -> None:
    text = shown("diurnal", "--days", "3", "--seed", "11")
    assert "advice of each day, judged by the next one" in text
    week, day = text.splitlines()[-2:]
    assert week.startswith("by the peak of the last 7 days: enough on")
    assert day.startswith("by the peak of the day alone: enough on")


def test_json_has_the_advice_and_both_backtests() -> None:
    arguments = ("diurnal", "--days", "3", "--seed", "11", "--output", "json")
    row: dict[str, Any] = json.loads(shown(*arguments))
    assert (row["of"], row["days"]) == ("diurnal", 3)
    assert [each["window_days"] for each in row["backtests"]] == [7, 1]
    assert [each["day"] for each in row["backtests"][0]["verdicts"]] == ["day 2", "day 3"]
    grown = json.loads(shown(*arguments, "--growth", "100"))
    assert grown["needed"] > 1.8 * row["needed"]
    assert json.loads(shown(*arguments, "--domains", "2"))["recommended"] > row["recommended"]
    assert json.loads(shown(*arguments, "--limit", "40"))["needed"] > row["needed"]


def test_a_scenario_without_days_is_refused() -> None:
    result = CliRunner().invoke(main, ["advise", "backtest", "broker-death"])
    assert result.exit_code == 2
    assert "one of steady-skew, diurnal" in result.output
