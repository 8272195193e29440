"""Replays, one after the other or in parallel processes."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Final

import click

from broker_ctl.cli.simulate.replays import ReplayResult, Run, run_replay

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


class _Shared:
    """State of a worker process, set at its start."""

    minutes: "Synchronized[int]"
    stopped: Event


def _start_worker(minutes: "Synchronized[int]", stopped: Event) -> None:
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    gc.set_threshold(_GARBAGE_AT)
    _Shared.minutes, _Shared.stopped = minutes, stopped


def _end_with_parent() -> None:
    """End with the parent: a worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_one(run: Run) -> ReplayResult:
    def advance() -> None:
        if _Shared.stopped.is_set():
            raise KeyboardInterrupt
        with _Shared.minutes.get_lock():
            _Shared.minutes.value += 1

    return run_replay(run, advance)
