"""The candidates of a back-test, and what is refused before anything starts."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.cli.pipeline.backtest import Config, check_dimensions, select_candidates
from broker_ctl.cli.replays import contestant_of
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.errors import SettingsError
from broker_ctl.pipeline.backtest.sweeps import dimension, grid

HIGH, LOW = "loadBalancerPlannerHighPercentage", "loadBalancerPlannerLowPercentage"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "backtest", *map(str, words)])


def test_the_rules_are_what_the_daemon_makes_of_the_settings(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{LOW}=103\n")
    dimensions = [dimension(f"{HIGH}=109,110")]
    found = select_candidates(
        ["settings", "threshold"], Config(conf, {}), dimensions, grid(dimensions)
    )
    assert [each.named for each in found.candidates] == [
        ("settings", ""),
        ("settings", f"{HIGH}=109"),
        ("settings", f"{HIGH}=110"),
        ("threshold", ""),
    ]
    usual, _, high, _ = (each.contestant for each in found.candidates)
    assert type(high.rules) is CycleRules
    daemon = contestant_of("settings", conf, {}, (f"{HIGH}=110",)).rules
    assert high.rules.shedding_rules == daemon.shedding_rules
    assert high.rules.shedding_rules.balance.band.low == pytest.approx(1.03)
    assert high.rules.shedding_rules.balance.band.high == pytest.approx(1.10)
    assert usual.rules.shedding_rules.balance.band.high == pytest.approx(1.08)


def test_points_with_contradictory_settings_are_left_out() -> None:
    dimensions = [dimension(f"{HIGH}=103,112"), dimension(f"{LOW}=102,104")]
    found = select_candidates(["settings"], Config(None, {}), dimensions, grid(dimensions))
    assert [each.parameters for each in found.candidates] == [
        "",
        f"{HIGH}=103 {LOW}=102",
        f"{HIGH}=112 {LOW}=102",
        f"{HIGH}=112 {LOW}=104",
    ]
    assert found.contradictory == 1
    assert f"{LOW}=104" in found.reason
    only = [dimension(f"{HIGH}=103")]
    with pytest.raises(SettingsError, match=f"{LOW}=104"):
        select_candidates(["settings"], Config(None, {}), only, grid(only))


def test_a_key_on_which_no_replay_depends_is_refused() -> None:
    for text in ("zookeeperTickTimeMillis=1000,3000", f"{HIGH}=108"):
        dimensions = [dimension(text)]
        check_dimensions(dimensions)
        with pytest.raises(SettingsError, match="no replay depends on it"):
            select_candidates(["settings"], Config(None, {}), dimensions, grid(dimensions))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("no-such",), 2, "one of steady-skew, diurnal"),
        ((), 2, "nothing to replay: name scenarios, or use --all or --tables"),
        (("diurnal", "--all"), 2, "either scenarios or --all"),
        (("diurnal", "--cluster", "c"), 2, "--cluster requires --tables"),
        (("diurnal", "--policy", "luck"), 2, "'luck'; one of settings, balance, overload"),
        (("diurnal", "--policy", "avg", "--set", f"{HIGH}=110"), 2, "for --policy settings"),
        (("diurnal", "--random", "3"), 2, "--random requires --set"),
        (("diurnal", "--draw-seed", "3"), 2, "--draw-seed requires --random"),
        (("diurnal", "--set", "loadBalancerWeather=1"), 1, "loadBalancerWeather: not a setting"),
        (("diurnal", "--set", f"{HIGH[:-1]}=1"), 1, f"unknown key; {HIGH} is meant"),
        (("diurnal", "--set", f"{HIGH}=110,high"), 1, f"{HIGH}=high: allowed: an integer"),
        (("diurnal", "--set", f"{HIGH}=90..110", "--random", "2"), 1, f"{HIGH}=90: allowed"),
        (("diurnal", "--set", f"{HIGH}=109..110"), 1, "say how many points"),
        (("diurnal", "--seeds", "100000"), 2, "700000 replays; at most 100000"),
        (("diurnal", "--broker-conf", "nowhere.conf"), 2, "nowhere.conf"),
    ],
)
def test_wrong_options_are_refused_before_spark_starts(
    words: tuple[str, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "JAVA_HOME", "/nowhere")
    result = run(*words, "--to", "results", "--dry-run")
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_a_dry_run_lists_what_would_be_replayed_and_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "results"
    sweep = ("--set", f"{HIGH}=109..120", "--random", 2, "--seeds", 3, "--first-seed", 10)
    result = run("diurnal", "flash-crowd", "--to", target, *sweep, "--dry-run", "--output", "json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert (plan["replays"], plan["seeds"]) == (2 * 3 * 3, "10 to 12")
    assert plan["traces"] == [{"trace": "diurnal"}, {"trace": "flash-crowd"}]
    assert plan["candidates"][0] == {"policy": "settings", "parameters": ""}
    drawn = [each["parameters"].partition("=") for each in plan["candidates"][1:]]
    assert {key for key, _, _ in drawn} == {HIGH}
    assert all(109 <= int(value) <= 120 for _, _, value in drawn)
    assert not target.exists()


def test_help_has_examples() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "broker-ctl pipeline backtest " in result.output.partition("Examples:")[2]
