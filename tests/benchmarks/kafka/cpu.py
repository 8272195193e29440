"""CPU time of the processes of both systems and of their servers, sampled while they are measured.

It shows where a row spends its time: in the brokers, the controller among them, in the servers, or
waiting.
"""

import asyncio
import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from tests.benchmarks.failover.brokers import now_s

# As long as the kernel counts in.
_SAMPLE_S: Final = 0.02
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name of the program: utime and stime.
_UTIME: Final = 11
_STIME: Final = 12

# Process ids of each part, as they are now.
Parts = Callable[[], Mapping[str, Collection[int]]]


class CpuSamples:
    """CPU seconds of each part over time; what a process that ended had used still counts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._at_s: list[float] = []
        self._totals: list[Mapping[str, float]] = []
        self._used_s: dict[str, dict[int, float]] = {}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample(now_s())
            await asyncio.sleep(_SAMPLE_S)

    def sample(self, at_s: float) -> None:
        """Sample once."""
        for part, pids in self._parts().items():
            used_s = self._used_s.setdefault(part, {})
            for pid in pids:
                used_s[pid] = max(used_s.get(pid, 0.0), cpu_s(pid))
        self._at_s.append(at_s)
        self._totals.append({part: sum(of.values()) for part, of in self._used_s.items()})

    def within(self, began_s: float, ended_s: float) -> dict[str, float]:
        """CPU seconds of each part between two times of the wall clock."""
        last = len(self._at_s) - 1
        before = self._totals[max(0, bisect_left(self._at_s, began_s) - 1)]
        after = self._totals[min(last, bisect_left(self._at_s, ended_s))]
        return {part: after[part] - before.get(part, 0.0) for part in after}


def cpu_s(pid: int) -> float:
    """What the process has used, in user and kernel mode; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S
