"""The run from start to end."""

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from broker_ctl.simulation.scenarios import scenario
from tests.benchmarks.optimal.cases import draw_case
from tests.benchmarks.optimal.day import regret_of
from tests.benchmarks.optimal.gaps import Gap, gap_of, summary_of

_DAY_SECONDS: Final = 450.0
_Task = TypeVar("_Task")
_Found = TypeVar("_Found")


def run(numbers: Sequence[int], seconds: float, jobs: int, days: Sequence[str]) -> dict[str, Any]:
    """The object, with every case and the regret of these days."""
    gaps: list[Gap] = []
    for gap in _each(partial(_gap, seconds=seconds), numbers, jobs):
        gaps.append(gap)
        _report(
            f"case {gap.case}: {gap.brokers} brokers, {gap.bundles} bundles, "
            f"{gap.resources} resources: maximum {gap.max_gap:+.1%}, moved {gap.moved_gap:+.1%}"
        )
    found: dict[str, Any] = summary_of(gaps) if gaps else {"cases": 0}
    found["gaps"] = [gap.to_row() for gap in gaps]
    if days:
        found["days"] = {}
        for name, regret in zip(days, _each(_regret, days, jobs), strict=True):
            found["days"][name] = regret
            _report(f"{name}: {regret}")
    return found


def joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The object of several runs together."""
    rows: dict[int, Gap] = {}
    days: dict[str, Any] = {}
    machines: list[Any] = []
    for part in parts:
        rows |= {row["case"]: Gap.of_row(row) for row in part["gaps"]}
        days |= part.get("days", {})
        machines.append(part.get("machine"))
    gaps = [rows[case] for case in sorted(rows)]
    found: dict[str, Any] = summary_of(gaps) if gaps else {"cases": 0}
    found["gaps"] = [gap.to_row() for gap in gaps]
    if days:
        found["days"] = days
    return {**found, "machine": machines}


def _gap(number: int, seconds: float) -> Gap:
    return gap_of(draw_case(number), seconds)


def _regret(name: str) -> dict[str, Any]:
    return regret_of(scenario(name), _DAY_SECONDS)


def _each(work: Callable[[_Task], _Found], tasks: Sequence[_Task], jobs: int) -> Iterator[_Found]:
    """Results in the order of the tasks, from processes of their own where there are several."""
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


def _report(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
