"""Puts the brokers' acts and the servers' transactions on one clock.

Acts are dated by CLOCK_BOOTTIME, which all processes share and nobody sets; transactions by the
wall clock, which may be set while a run lasts. So the difference is read again and again.
"""

import time
from bisect import bisect
from collections.abc import Callable
from typing import Final

_READS: Final = 16


class WallClock:
    """The difference of the two clocks, as often as it was read.

    ``wall_ns`` and ``boot_ns``: the clocks.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        boot_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    ) -> None:
        self._wall_ns = wall_ns
        self._boot_ns = boot_ns
        self._read_ns: list[int] = []
        self._offsets_ns: list[int] = []
        self.read()

    def read(self) -> None:
        """Read the difference now.

        Of several reads the fastest counts: a process that loses its CPU between the two clocks is
        wrong by as long, and on a busy machine that is longer than a node lives beyond its bundle.
        """
        _, offset_ns, read_ns = min(self._once() for _ in range(_READS))
        self._read_ns.append(read_ns)
        self._offsets_ns.append(offset_ns)

    def offset_ns(self, boot_ns: int) -> int:
        """What to add to a time of the one clock for the other: by the last read before it."""
        return self._offsets_ns[max(0, bisect(self._read_ns, boot_ns) - 1)]

    def wall_ms(self, boot_ns: int) -> int:
        """Milliseconds of the wall clock."""
        return (boot_ns + self.offset_ns(boot_ns)) // 1_000_000

    def _once(self) -> tuple[int, int, int]:
        before_ns = self._boot_ns()
        wall_ns = self._wall_ns()
        after_ns = self._boot_ns()
        return after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2, before_ns
