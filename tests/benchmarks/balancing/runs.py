"""Replays in processes of their own."""

import gc
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.replay.replay import POLICIES, replay
from broker_ctl.simulation.replay.scores import bound_of, scores_of
from broker_ctl.simulation.scenarios import scenario
from broker_ctl.simulation.traces.trace_files import build_trace_scenario, read_events, read_traffic

# A replay makes millions of small values and hardly ever a cycle.
_GARBAGE_AT: Final = 200_000


@dataclass(frozen=True)
class Source:
    """Where a scenario comes from: its name, or files.

    Attributes:
        seed: another one than the scenario's own.
    """

    name: str
    hours: int
    trace: Path | None = None
    events: Path | None = None
    brokers: int = 0
    seed: int | None = None

    @property
    def label(self) -> str:
        """What its row is called."""
        return self.name if self.seed is None else f"{self.name} seed {self.seed}"


@dataclass(frozen=True)
class Run:
    source: Source
    policy: str


@dataclass(frozen=True)
class Done:
    """``scores`` are plain JSON values."""

    run: Run
    bound: float
    scores: dict[str, Any]


@lru_cache(maxsize=1)
def scenario_of(source: Source) -> tuple[Scenario, float]:
    """And its bound; runs of the same one follow each other.

    Raises:
        SettingsError: no such scenario, or files that cannot be read.
    """
    if source.trace is None:
        found = scenario(source.name, hours=source.hours, seed=source.seed)
    else:
        events = read_events(source.events) if source.events else ()
        found = build_trace_scenario(
            source.name, read_traffic(source.trace), source.brokers, events
        )
    return found, bound_of(found)


def one(run: Run) -> Done:
    """The scores of one replay."""
    found, bound = scenario_of(run.source)
    contestant = POLICIES[run.policy]()
    scores = scores_of(
        replay(
            found,
            contestant.rules,
            contestant.pace,
            bundles_per_namespace=contestant.bundles_per_namespace,
        )
    )
    return Done(run, bound, scores.to_row())


def all_of(runs: Sequence[Run], jobs: int) -> Iterator[Done]:
    """Results as the runs end; each prints a line of progress on stderr."""
    with ProcessPoolExecutor(
        max_workers=jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=gc.set_threshold,
        initargs=(_GARBAGE_AT,),
    ) as pool:
        futures = [pool.submit(one, run) for run in runs]
        try:
            for number, future in enumerate(as_completed(futures), 1):
                done = future.result()
                _report_progress(number, len(runs), done)
                yield done
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _report_progress(number: int, count: int, done: Done) -> None:
    scores = done.scores
    sys.stderr.write(
        f"{number}/{count} {done.run.source.label} {done.run.policy}: "
        f"p99 {scores['p99']:.3f} (bound {done.bound:.3f}), "
        f"{scores['load_moved_pct_per_h']:.2f} % of load moved an hour\n"
    )
    sys.stderr.flush()
