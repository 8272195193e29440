"""Replays of ``broker-ctl simulate``: in processes side by side, and their table."""

import csv
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import print_table
from broker_ctl.core.cluster.columns import Floats
from broker_ctl.simulation.replay.cluster import Moved
from broker_ctl.simulation.replay.replay import POLICIES, Baseline, replay
from broker_ctl.simulation.replay.scores import Scores, bound_of, scores_of
from broker_ctl.simulation.workload.scenario_workload import WorkloadSource, scenario_of

if TYPE_CHECKING:
    from broker_ctl.simulation.plots import Chart

# Replays of scenarios under policies, and their results.


SETTINGS: Final = "settings"
BALANCE: Final = "balance"


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario under a policy."""

    source: WorkloadSource
    policy: str
    contestant: Baseline


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay, without the traffic.

    Attributes:
        ratios: largest usage over mean usage, by minute.
    """

    scenario: str
    policy: str
    bound: float
    scores: Scores
    ratios: Floats
    moves: tuple[Moved, ...]


def run_replay(run: Run, on_minute: Callable[[], None]) -> ReplayResult:
    """Run a replay; ``on_minute`` is called after each simulated minute.

    Raises:
        SettingsError: as `scenario_of`.
        InvariantBroken: a plan of a strategy violates an invariant.
    """
    found = scenario_of(run.source)
    record = replay(
        found,
        run.contestant.rules,
        run.contestant.pace,
        on_minute,
        bundles_per_namespace=run.contestant.bundles_per_namespace,
    )
    return ReplayResult(
        scenario=run.source.name,
        policy=run.policy,
        bound=bound_of(found),
        scores=scores_of(record),
        ratios=record.max_over_mean,
        moves=record.moves,
    )


def contestant_of(
    policy: str, config: Path | None, environment: Mapping[str, str], overrides: tuple[str, ...]
) -> Baseline:
    """A policy of `POLICIES`, or that of a leader with its settings.

    Raises:
        SettingsError: a setting is invalid.
        KeyError: no such policy.
    """
    if policy != SETTINGS:
        return POLICIES[policy]()
    from broker_ctl.daemon.wiring.part_rules import leader_rules
    from broker_ctl.settings.sources import load

    # A leader has one pace, whatever its strategies.
    return Baseline(leader_rules(load(config, environment, overrides)), POLICIES[BALANCE]().pace)


# Replays, one after the other or in parallel processes.


# A replay creates millions of small objects and hardly any reference cycle.
_GARBAGE_AT: Final = 200_000
_POLL_S: Final = 0.2

# Called with the number of simulated minutes done, summed over all replays.
Progress = Callable[[int], None]


def run_replays(runs: Sequence[Run], jobs: int, progress: Progress) -> list[ReplayResult]:
    """Run all replays; the results are in the order of ``runs``.

    Raises:
        BrokerCtlError: a scenario or a strategy failed.
        ClickException: a process was killed.
    """
    if jobs == 1 or len(runs) == 1:
        return _sequentially(runs, progress)
    try:
        return _in_parallel(runs, min(jobs, len(runs)), progress)
    except BrokenProcessPool as error:
        what = "a process was killed; fewer --jobs need less memory"
        raise click.ClickException(what) from error


def _sequentially(runs: Sequence[Run], progress: Progress) -> list[ReplayResult]:
    minutes = 0

    def advance() -> None:
        nonlocal minutes
        minutes += 1
        progress(minutes)

    usual = gc.get_threshold()
    gc.set_threshold(_GARBAGE_AT)
    try:
        return [run_replay(run, advance) for run in runs]
    finally:
        gc.set_threshold(*usual)


def _in_parallel(runs: Sequence[Run], jobs: int, progress: Progress) -> list[ReplayResult]:
    context = multiprocessing.get_context("spawn")
    minutes, stopped = context.Value("q", 0), context.Event()
    with ProcessPoolExecutor(
        max_workers=jobs, mp_context=context, initializer=_start_worker, initargs=(minutes, stopped)
    ) as pool:
        try:
            futures = _submit(pool, runs)
            while wait(futures, _POLL_S, ALL_COMPLETED).not_done:
                progress(minutes.value)
                for future in futures:
                    if future.done():
                        # Raise a failure now, not after the other replays.
                        future.result()
            return [future.result() for future in futures]
        finally:
            # A replay stops at its next minute. Wait for processes that are still starting: they
            # need semaphores that go with this call, and would fail with a traceback.
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _submit(pool: ProcessPoolExecutor, runs: Sequence[Run]) -> "list[Future[ReplayResult]]":
    """Start the processes, which inherit the blocked SIGINT, and submit all runs.

    Ctrl-C goes to all processes of a terminal: only this one handles it, and stops the others.
    """
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _defer_interrupt():
            return [pool.submit(_run_one, run) for run in runs]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block: a half-started process would end with a traceback.

    Blocking the signal is not enough: the kernel delivers it to another thread, such as that of
    the progress bar, and Python still calls the handler in this one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt


class _WorkerState:
    """State of a worker process, set at its start."""

    minutes: "Synchronized[int]"
    stopped: Event


def _start_worker(minutes: "Synchronized[int]", stopped: Event) -> None:
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    gc.set_threshold(_GARBAGE_AT)
    _WorkerState.minutes, _WorkerState.stopped = minutes, stopped


def _end_with_parent() -> None:
    """End with the parent: a worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_one(run: Run) -> ReplayResult:
    def advance() -> None:
        if _WorkerState.stopped.is_set():
            raise KeyboardInterrupt
        with _WorkerState.minutes.get_lock():
            _WorkerState.minutes.value += 1

    return run_replay(run, advance)


# Scores of replays as tables, as JSON and as plots; moves as rows of a CSV file.


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


def chart_of(group: Sequence[ReplayResult]) -> "Chart":
    """The chart of one scenario, a curve per policy."""
    from broker_ctl.simulation.plots import Chart, PlotCurve

    curves = [
        PlotCurve(each.policy, each.ratios, tuple(move.minute for move in each.moves))
        for each in group
    ]
    return Chart(_title(group[0]), group[0].bound, curves)


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
