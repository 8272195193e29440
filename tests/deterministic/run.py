"""Many schedules, on all cores, and what came of them."""

import gc
import logging
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, Final

from tests.deterministic.schedule import STEPS, Outcome, Schedule
from tests.deterministic.shrink import shrink
from tests.deterministic.world.wire import Coverage

_CHUNK: Final = 8
_BAR: Final = 40
# The violations of a run have few causes, and a schedule takes a minute or two to be shrunk.
_MOST_SHRUNK: Final = 3
_CHECKED: Final = (
    "I1a",
    "I1b",
    "I2",
    "I3",
    "I4",
    "I5",
    "I6",
    "I7",
    "I8",
    "I9",
    "I10",
    "I11",
    "I12",
)


@dataclass(frozen=True, slots=True)
class Result:
    """Of all schedules together."""

    outcomes: Sequence[Outcome]
    coverage: Mapping[str, int]
    seconds: float

    @property
    def violations(self) -> list[dict[str, Any]]:
        return [
            {
                "seed": outcome.seed,
                "trace": f"{outcome.trace:08x}",
                "what": list(outcome.violations),
            }
            for outcome in self.outcomes
            if outcome.violations
        ]

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        faults: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        for outcome in self.outcomes:
            faults.update(outcome.faults)
            answers.update(outcome.outcomes)
        recoveries = sorted(o.recovery_s for o in self.outcomes if not o.violations)
        count = len(self.outcomes)
        return {
            "schedules": count,
            "steps": count * STEPS,
            "seconds": round(self.seconds, 1),
            "schedules_per_s": round(count / self.seconds, 2),
            "checked": list(_CHECKED),
            "violations": self.violations,
            "coverage": dict(self.coverage),
            "coverage_min": min(self.coverage.values()),
            "faults": dict(sorted(faults.items())),
            "answers": dict(sorted(answers.items())),
            "acts": sum(outcome.acts for outcome in self.outcomes),
            "refused_acts": sum(outcome.refused for outcome in self.outcomes),
            "recovery_s": {"max": recoveries[-1] if recoveries else None},
            "trace": f"{sum(outcome.trace for outcome in self.outcomes) & 0xFFFFFFFF:08x}",
        }


def run(
    seed: int, schedules: int, jobs: int, *, is_until_found: bool = False, is_bar: bool = True
) -> Result:
    """``schedules`` of them, from ``seed`` on, or until one finds a violation."""
    began_s = time.perf_counter()
    # All of a daemon was imported, and nothing of it becomes garbage: no collection looks at it.
    gc.collect()
    gc.freeze()
    # What has begun is brought to its end: after a violation nothing more is wanted.
    size = 1 if is_until_found else _CHUNK
    chunks = [
        (first, min(size, seed + schedules - first))
        for first in range(seed, seed + schedules, size)
    ]
    outcomes: list[Outcome] = []
    coverage: Counter[str] = Counter()
    for found, row in _each(chunks, jobs):
        outcomes += found
        coverage.update(row)
        if is_bar:
            _draw_bar(outcomes, schedules)
        if is_until_found and any(outcome.violations for outcome in found):
            break
    if is_bar:
        sys.stderr.write("\n")
    return Result(outcomes, coverage, time.perf_counter() - began_s)


def with_fewest_steps(violations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of them with the fewest steps that still violate the same, where that is found."""
    hush()
    rows = []
    for number, violation in enumerate(violations):
        shrunk = shrink(violation["seed"]) if number < _MOST_SHRUNK else None
        rows.append(violation if shrunk is None else {**violation, "shrunk": shrunk.to_row()})
    return rows


Done = tuple[list[Outcome], dict[str, int]]


def _each(chunks: Sequence[tuple[int, int]], jobs: int) -> Iterator[Done]:
    if jobs == 1 or len(chunks) == 1:
        yield from map(_some, chunks)
        return
    with ProcessPoolExecutor(jobs, get_context("fork"), _begin) as pool:
        try:
            yield from pool.map(_some, chunks)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()


def _end_with_parent() -> None:
    """A run of schedules is ended as tests are, and its processes would work on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _some(chunk: tuple[int, int]) -> Done:
    first, count = chunk
    hush()
    coverage = Coverage()
    outcomes = [Schedule(seed, coverage).run() for seed in range(first, first + count)]
    # What a schedule leaves waiting goes here, and not in the middle of another one.
    gc.collect()
    return outcomes, coverage.to_row()


def hush() -> None:
    """A schedule ends in the middle of things: what it leaves is expected."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", RuntimeWarning)
    sys.unraisablehook = lambda _: None


def _draw_bar(outcomes: Sequence[Outcome], schedules: int) -> None:
    share = len(outcomes) / schedules
    bad = sum(bool(outcome.violations) for outcome in outcomes)
    bar = "#" * round(_BAR * share)
    sys.stderr.write(f"\r[{bar:<{_BAR}}] {len(outcomes)}/{schedules}, {bad} violated")
    sys.stderr.flush()
