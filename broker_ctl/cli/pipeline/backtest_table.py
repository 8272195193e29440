"""Results of a back-test as tables and as JSON."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.cli.runtime.output import print_table

if TYPE_CHECKING:
    from broker_ctl.pipeline.backtest.job import Verdict
    from broker_ctl.pipeline.backtest.results import ComparisonRow, FrontRow

_COLUMNS: Final = ("policy", "parameters", "seeds", "p99", "moved %/h", "overloaded", "front")
_MEASURES: Final = {"p99": 3, "load_moved_pct_per_h": 2, "overload_broker_min": 1}


def to_row(verdict: "Verdict") -> dict[str, Any]:
    """Plain JSON values; an unbounded end of an interval is null."""
    return {
        "replays": [row._asdict() for row in verdict.replays],
        "comparisons": [_finite(row._asdict()) for row in verdict.comparisons],
        "front": [row._asdict() for row in verdict.front],
        "faults": [fault.why for fault in verdict.faults],
    }


def show(verdict: "Verdict") -> None:
    """Print a table for each trace: means of each candidate, and differences to the baseline."""
    for trace, rows in groupby(verdict.front, lambda row: row.trace):
        against = {
            (row.policy, row.parameters, row.measure): row
            for row in verdict.comparisons
            if row.trace == trace
        }
        title = f"{trace}: {_baseline(against.values())}"
        headers = (*_COLUMNS, *(f"{name} against it" for name in _MEASURES))
        print_table(title, headers, _lines(list(rows), against))


def _baseline(comparisons: Iterable["ComparisonRow"]) -> str:
    for row in comparisons:
        named = f"{row.baseline_policy} {row.baseline_parameters}".strip()
        return f"means over the seeds; [95 %] of the difference to {named}"
    return "means over the seeds"


def _lines(
    rows: Sequence["FrontRow"], against: dict[tuple[str, str, str], "ComparisonRow"]
) -> Iterator[tuple[object, ...]]:
    for row in rows:
        found = (against.get((row.policy, row.parameters, measure)) for measure in _MEASURES)
        yield (
            row.policy,
            row.parameters,
            row.seeds,
            f"{row.p99:.3f}",
            f"{row.load_moved_pct_per_h:.2f}",
            f"{row.overload_broker_min:.0f} min",
            row.is_on_front,
            *(each and _interval(each) for each in found),
        )


def _interval(row: "ComparisonRow") -> str:
    digits = _MEASURES[row.measure]
    if math.isinf(row.low):
        return f"{row.difference:+.{digits}f} [one pair]"
    return f"{row.difference:+.{digits}f} [{row.low:+.{digits}f}, {row.high:+.{digits}f}]"


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    is_infinite = {
        name for name, each in row.items() if isinstance(each, float) and math.isinf(each)
    }
    return {name: None if name in is_infinite else each for name, each in row.items()}
