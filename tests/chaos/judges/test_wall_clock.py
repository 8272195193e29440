"""Two clocks that are read one after the other, by a process that may lose its CPU in between."""

from collections.abc import Iterator
from itertools import chain, repeat

from tests.chaos.judges.wall_clock import WallClock

MS = 1_000_000
APART = 5_000 * MS


class Machine:
    """Time passes at each read; ``stalls`` are added between two reads."""

    def __init__(self, *stalls_ms: int) -> None:
        self.boot_ns = 100 * MS
        self.apart_ns = APART
        self._stalls: Iterator[int] = chain(stalls_ms, repeat(0))

    def boot(self) -> int:
        self.boot_ns += 100
        return self.boot_ns

    def wall(self) -> int:
        self.boot_ns += next(self._stalls) * MS
        return self.boot_ns + self.apart_ns

    def clock(self) -> WallClock:
        return WallClock(self.wall, self.boot)


def test_a_process_that_loses_its_cpu_between_two_reads_is_not_wrong_by_as_long() -> None:
    machine = Machine(40, 0, 90)
    assert abs(machine.clock().offset_ns(machine.boot_ns) - APART) < MS


def test_a_wall_clock_that_is_set_holds_from_then_on() -> None:
    machine = Machine()
    clock = machine.clock()
    before_ns = machine.boot_ns
    machine.boot_ns += 1000 * MS
    machine.apart_ns += 300 * MS
    clock.read()
    assert clock.wall_ms(before_ns) == (before_ns + APART) // MS
    assert abs(clock.wall_ms(machine.boot_ns) - (machine.boot_ns + machine.apart_ns) // MS) <= 1


def test_what_happened_before_the_first_read_is_dated_by_it() -> None:
    machine = Machine()
    assert abs(machine.clock().offset_ns(0) - APART) < MS
