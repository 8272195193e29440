"""A process that does nothing beside a benchmark, and measures how late it does it.

It sleeps for `SLEEP_S` again and again. What it wakes late is the lag that any event loop on this
machine has before it does work of its own. Between sleeps it reads how many threads run or wait for
a core. It ends with its standard input, and then prints one JSON object. It is run by path, without
the packages of the benchmark, to take little from what it observes.
"""

import json
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SLEEP_S = 0.01
_LOADS = Path("/proc/loadavg")


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and largest, of at least one value."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "p50": ordered[last // 2],
        "p99": ordered[round(last * 0.99)],
        "max": ordered[last],
    }


def runnable_of(loads: str) -> int:
    """Threads that run or wait for a core, without the one that reads; see proc_loadavg(5)."""
    return max(0, int(loads.split()[3].partition("/")[0]) - 1)


def main() -> None:
    """Sample until standard input ends."""
    lags_ms: list[float] = []
    queue: list[float] = []
    sys.stdout.write("\n")
    sys.stdout.flush()
    while True:
        due_s = time.monotonic() + SLEEP_S
        if select.select([sys.stdin], [], [], SLEEP_S)[0]:
            break
        lags_ms.append(round(max(0.0, time.monotonic() - due_s) * 1000, 2))
        queue.append(runnable_of(_LOADS.read_text()))
    found = {
        "idle_loop_lag_ms": quantiles(lags_ms or [0.0]),
        "run_queue": quantiles(queue or [runnable_of(_LOADS.read_text())]),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
