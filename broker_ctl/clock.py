"""The only place that reads a clock.

Decisions (leases, deadlines) use `now_s`; `wall_ms` is shown, stored, and compared with the time in
signatures and redirects of other brokers. A step of the wall clock changes no decision about
ownership.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and a wall clock."""

    def now_s(self) -> float:
        """Seconds on a clock that never steps and also counts while the machine is suspended."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for payloads and logs."""
        ...

    def cpu_s(self) -> float:
        """Seconds for which the calling thread has run: how long its own work takes."""
        ...


class SystemClock:
    """CLOCK_BOOTTIME and the wall clock.

    ``loop.time()`` is CLOCK_MONOTONIC, which stops during a suspend: a lease measured by it would
    outlive its session (docs: zookeeper-session-rules).
    """

    def now_s(self) -> float:
        """CLOCK_BOOTTIME in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_ms(self) -> int:
        """Wall clock in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def cpu_s(self) -> float:
        """CLOCK_THREAD_CPUTIME_ID in seconds; other threads and processes do not count."""
        return time.thread_time()
