"""Scores of replays as tables, as JSON and as plots; moves as rows of a CSV file."""

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from broker_ctl.cli.runtime.output import print_table
from broker_ctl.cli.simulate.replays import ReplayResult
from broker_ctl.simulation.plots.chart import Chart
from broker_ctl.simulation.replay.scores import Scores

_COLUMNS: Final = (
    *("policy", "p50", "p99", "max", "moved %/h", "moves", "back and forth"),
    *("settled after", "overloaded"),
)
_MOVE_COLUMNS: Final = (
    *("scenario", "policy", "minute", "bundle", "source", "destination", "bytes_per_s"),
    *("reason", "cause"),
)

_MINUTE_S: Final = 60


def to_row(results: Sequence[ReplayResult]) -> dict[str, Any]:
    """Plain JSON values: scores by scenario and policy, and the bound of each scenario."""
    scenarios: dict[str, dict[str, Any]] = {}
    for result in results:
        scenarios.setdefault(result.scenario, {})[result.policy] = _measures(result.scores)
    return {
        "scenarios": scenarios,
        "imbalance_bound": {result.scenario: result.bound for result in results},
    }


def _measures(scores: Scores) -> dict[str, Any]:
    settled = scores.settle_min
    return {
        "imbalance_p50": scores.p50,
        "imbalance_p99": scores.p99,
        "imbalance_max": scores.most,
        "load_moved_ratio_per_h": scores.load_moved_pct_per_h / 100,
        "moves": scores.moves,
        "back_and_forth": scores.back_and_forth,
        "settled_after_s": None if settled is None else settled * _MINUTE_S,
        "overload_broker_s": scores.overload_broker_min * _MINUTE_S,
    }


def show(group: Sequence[ReplayResult]) -> None:
    """Print the table of one scenario."""
    print_table(_title(group[0]), _COLUMNS, map(_cells, group))


def by_scenario(results: Sequence[ReplayResult]) -> Iterator[list[ReplayResult]]:
    """The results of each scenario; those of one scenario are adjacent."""
    for _, group in groupby(results, lambda result: result.scenario):
        yield list(group)


def chart_of(group: Sequence[ReplayResult]) -> Chart:
    """The chart of one scenario, a curve per policy."""
    return Chart(_title(group[0]), group[0].bound, [result.curve for result in group])


def write_moves(path: Path, results: Sequence[ReplayResult]) -> None:
    """Write a CSV row per move.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_MOVE_COLUMNS)
        for result in results:
            rows.writerows((result.scenario, result.policy, *row) for row in _moves(result))


def _moves(result: ReplayResult) -> Iterator[tuple[object, ...]]:
    for move in result.moves:
        rate = round(move.bytes_s)
        ends = move.source, move.destination
        yield (move.minute, str(move.bundle), *ends, rate, move.reason.value, move.cause.value)


def _title(result: ReplayResult) -> str:
    return f"{result.scenario}: largest over mean usage; no placement beats {result.bound:.3f}"


def _cells(result: ReplayResult) -> tuple[object, ...]:
    scores = result.scores
    settled = "never" if scores.settle_min is None else f"{scores.settle_min} min"
    return (
        result.policy,
        f"{scores.p50:.3f}",
        f"{scores.p99:.3f}",
        f"{scores.most:.3f}",
        f"{scores.load_moved_pct_per_h:.2f}",
        scores.moves,
        scores.back_and_forth,
        settled,
        f"{scores.overload_broker_min} min",
    )
