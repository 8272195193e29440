"""The table of ``broker-ctl advise``: what each number of brokers would carry."""

from collections.abc import Sequence
from typing import Any

from broker_ctl.cli.runtime.output import echo, print_facts, print_table
from broker_ctl.core.planning.size import (
    WEEK_DAYS,
    DayLoad,
    SizeRules,
    advise_for_peak,
    backtest_size,
    weekly_peak,
)

_COLUMNS = ("day", "advised", "needed", "usage after a loss", "verdict")


def size_row(of: str, days: Sequence[DayLoad], rules: SizeRules) -> dict[str, Any]:
    """The advice for the weekly peak, and the back-test of it and of the day alone."""
    advice, peak = advise_for_peak(days, rules), weekly_peak(days)
    return {
        "of": of,
        "days": len(days),
        "peak_day": None if peak is None else peak.day,
        "peak_mean_brokers": None if peak is None else peak.mean_brokers,
        "growth_ratio": rules.growth_ratio,
        "limit_ratio": rules.limit_ratio,
        "needed": None if advice is None else advice.needed,
        "needed_with_broker_lost": None if advice is None else advice.with_broker_lost,
        "needed_with_domain_lost": None if advice is None else advice.with_domain_lost,
        "recommended": None if advice is None else advice.recommended,
        "backtests": [backtest_size(days, rules, window).to_row() for window in (WEEK_DAYS, 1)],
    }


def print_size(row: dict[str, Any]) -> None:
    """The days, the advice, and what it was worth."""
    week, day = row["backtests"]
    cells = [
        (
            each["day"],
            each["advised"],
            each["needed"],
            f"{each['usage_after_loss_ratio']:.0%}",
            "enough" if each["is_enough"] else f"{-each['spare']} missing",
        )
        for each in week["verdicts"]
    ]
    if cells:
        print_table("advice of each day, judged by the next one", _COLUMNS, cells)
    print_facts("size", {name: row[name] for name in row if name != "backtests"})
    echo(week["sentence"])
    echo(day["sentence"])
