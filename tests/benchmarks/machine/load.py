"""How busy the machine was during a benchmark: the same fields in the object of each.

cores              cores of the machine
busy_cores         cores that were busy on average
others_cores       the part of these that neither the benchmark nor what it started has used
run_queue          threads that ran or waited for a core (p50, p99, max)
idle_loop_lag_ms   how late a process with nothing to do wakes from a sleep of 10 ms (p50, p99, max)

Figures of two runs are comparable where `others_cores` and `idle_loop_lag_ms` are.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.codec import decode_object
from tests.benchmarks.machine import idle_loop

_STAT: Final = Path("/proc/stat")
_LIMIT_S: Final = 10.0
# Of the line `cpu` (proc_stat(5)): time in guests is part of the first two.
_COUNTED: Final = 8
_IDLE: Final = frozenset({3, 4})


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since the boot, and of CPU: of all processes, and of this one and its children."""

    at_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> "CpuTimes":
        """Children count once they have ended and were waited for."""
        of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own_s = sum(one.ru_utime + one.ru_stime for one in of)
        return cls(time.monotonic(), busy_s(_STAT.read_text()), own_s)


def busy_s(stat: str) -> float:
    """CPU seconds that all processes, the kernel and other machines on this hardware took."""
    ticks = stat.partition("\n")[0].split()[1 : 1 + _COUNTED]
    busy = sum(int(one) for number, one in enumerate(ticks) if number not in _IDLE)
    return busy / os.sysconf("SC_CLK_TCK")


def shares(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """``busy_cores`` and ``others_cores`` between two moments."""
    took_s = max(after.at_s - before.at_s, 1e-9)
    busy = (after.busy_s - before.busy_s) / took_s
    own = (after.own_s - before.own_s) / took_s
    return {"busy_cores": round(busy, 2), "others_cores": round(max(0.0, busy - own), 2)}


def with_machine_load(measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The object that a benchmark measures, with `machine`: how busy the machine was meanwhile.

    ``measure`` has ended all processes that it started when it returns.
    """
    with _idle_loop() as process:
        before = CpuTimes.now()
        found = dict(measure())
        # Ends it; what it took counts as own.
        seen, _ = process.communicate(timeout=_LIMIT_S)
        used = shares(before, CpuTimes.now())
    return {**found, "machine": {"cores": os.cpu_count(), **used, **decode_object(seen)}}


@contextmanager
def _idle_loop() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", idle_loop.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Ctrl-C at the terminal is for the benchmark.
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has started
            yield process
        finally:
            process.kill()
