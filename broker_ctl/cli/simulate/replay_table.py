"""Scores of replays as tables, as JSON and as plots; moves as rows of a CSV file."""

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from broker_ctl.cli.runtime.output import print_table
from broker_ctl.cli.simulate.replays import Done
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


def to_row(all_done: Sequence[Done]) -> dict[str, Any]:
    """Plain JSON values: scores by scenario and policy, and the bound of each scenario."""
    scenarios: dict[str, dict[str, Any]] = {}
    for done in all_done:
        scenarios.setdefault(done.scenario, {})[done.policy] = _measures(done.scores)
    return {
        "scenarios": scenarios,
        "imbalance_bound": {done.scenario: done.bound for done in all_done},
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


def show(group: Sequence[Done]) -> None:
    """One scenario."""
    print_table(_title(group[0]), _COLUMNS, map(_cells, group))


def by_scenario(all_done: Sequence[Done]) -> Iterator[list[Done]]:
    """Those of one scenario follow each other."""
    for _, group in groupby(all_done, lambda done: done.scenario):
        yield list(group)


def chart_of(group: Sequence[Done]) -> Chart:
    """The policies of one scenario."""
    return Chart(_title(group[0]), group[0].bound, [done.curve for done in group])


def write_moves(path: Path, all_done: Sequence[Done]) -> None:
    """A row a move, in their order.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_MOVE_COLUMNS)
        for done in all_done:
            rows.writerows((done.scenario, done.policy, *row) for row in _moves(done))


def _moves(done: Done) -> Iterator[tuple[object, ...]]:
    for move in done.moves:
        rate = round(move.bytes_s)
        ends = move.source, move.destination
        yield (move.minute, str(move.bundle), *ends, rate, move.reason.value, move.cause.value)


def _title(done: Done) -> str:
    return f"{done.scenario}: largest over mean usage; no placement beats {done.bound:.3f}"


def _cells(done: Done) -> tuple[object, ...]:
    scores = done.scores
    settled = "never" if scores.settle_min is None else f"{scores.settle_min} min"
    return (
        done.policy,
        f"{scores.p50:.3f}",
        f"{scores.p99:.3f}",
        f"{scores.most:.3f}",
        f"{scores.load_moved_pct_per_h:.2f}",
        scores.moves,
        scores.back_and_forth,
        settled,
        f"{scores.overload_broker_min} min",
    )
