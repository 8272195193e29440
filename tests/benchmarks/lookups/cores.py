"""Which core a process runs on, and how much of it."""

import os
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import psutil


def pin(pid: int, cores: AbstractSet[int]) -> None:
    """Let all threads of a process run on these cores, and those that they start."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # One that has ended meanwhile needs no core.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
