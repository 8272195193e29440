"""Tuning of the interpreter: garbage collection, and the switching of threads."""

import asyncio
import gc
import logging
import sys
from typing import Final

from broker_ctl.clock import Clock

log = logging.getLogger(__name__)

# Tuning of Python's garbage collector, which looks for reference cycles.
#
# A leader replaces its knowledge of every bundle every few seconds. Triggered by the number of
# new objects, Python would search all of it again and again, blocking the event loop for 0.2 s
# with 100,000 bundles. Reference counts free nearly everything, so a search at a long interval is
# enough for the rest.
#
# A search holds the interpreter, so that no thread pings for the loop meanwhile (docs: busy-loop).
# One that would take too long is not begun: what a leader of many bundles has is excluded.


_EVERY_S: Final = 600.0
# Between looks at the memory: if it grows quickly, the next search must not become long.
_LOOK_EVERY_S: Final = 60.0
_GROWTH_BLOCKS: Final = 1_500_000
# Number of new objects that triggers a search of the young generation: 20,000 took 30 to 100 ms
# each time. Survivors wait for the periodic search: the middle generation alone, a million objects
# of two views, took 0.6 s.
_THRESHOLDS: Final = (5_000, 1_000_000, 1_000_000)
# Of the session timeout. Two thirds of it may pass without a ping, so an estimate that is four
# times too low costs no session.
_LONGEST_RATIO: Final = 1 / 6
# Longer than that no request should wait, unless memory may be lost.
_SHORT_S: Final = 0.05
# A search took 0.2 us for each object on an idle machine, and 1.3 us on a very busy one.
_LEAST_COST_S: Final = 0.5e-6
# A search of fewer says more of what else runs on the machine than of an object.
_JUDGED_BY: Final = 10_000
# To count them, which Python only does by making a list. Three blocks of memory are an object.
_COUNTING_S: Final = 0.07e-6
_BLOCKS_OF_AN_OBJECT: Final = 3
# Of the young generation: how long a search should take, and how often there is one.
_YOUNG_S: Final = 0.002
_YOUNG_EVERY_S: Final = (0.02, 1.0)


def freeze_garbage() -> None:
    """Exclude imported modules and built parts from searches: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


async def collect_periodically(session_timeout_s: float, clock: Clock) -> None:
    """Search all generations at an interval, or when much more memory is in use than before."""
    search = BoundedSearch(session_timeout_s * _LONGEST_RATIO, clock)
    searched_s = clock.now_s()
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if clock.now_s() >= searched_s + _EVERY_S or search.has_grown():
            search.run()
            searched_s = clock.now_s()


async def collect_young(clock: Clock) -> None:
    """Search new objects as often as keeps such a search short, and at least once a second.

    Python starts one after as many objects are made as `_THRESHOLDS` says, but counts back for each
    that is freed. Lines of load reports are freed while new ones are made: the next search of the
    young generation then had hundreds of thousands, and stopped the event loop for 0.1 s.
    """
    shortest_s, every_s = _YOUNG_EVERY_S
    longest_s = every_s
    while True:
        await asyncio.sleep(every_s)
        began_s = clock.now_s()
        gc.collect(0)
        took_s = clock.now_s() - began_s
        if took_s > _YOUNG_S * 2:
            every_s = max(shortest_s, every_s / 2)
        elif took_s < _YOUNG_S / 2:
            every_s = min(longest_s, every_s * 2)


class BoundedSearch:
    """Searches of all generations, whose length is proportional to the number of objects.

    What would hold the interpreter for longer than a request may wait is excluded from later
    searches instead: cycles among it stay in memory, all others are still found. Once memory has
    grown by half, or has shrunk to a quarter, everything is searched at once, if that takes
    ``longest_s`` at most.
    """

    def __init__(self, longest_s: float, clock: Clock) -> None:
        self._longest_s = longest_s
        self._clock = clock
        self._cost_s = _LEAST_COST_S
        # Python's memory, which takes a hundredth of the time to count that its objects take.
        self._excluded_blocks = sys.getallocatedblocks()
        self._left_blocks = 0
        # Within these bounds what is excluded stays so.
        self._least_blocks, self._most_blocks = 0, sys.maxsize

    def has_grown(self) -> bool:
        """Whether there is more than twice as much to search as the last search has left."""
        return self._blocks() > 2 * self._left_blocks + _GROWTH_BLOCKS

    def run(self) -> None:
        """Search, or exclude what there is."""
        is_complete = not self._least_blocks <= sys.getallocatedblocks() <= self._most_blocks
        if is_complete:
            gc.unfreeze()
            self._excluded_blocks = 0
            self._least_blocks, self._most_blocks = 0, sys.maxsize
        limit_s = self._longest_s if is_complete else min(_SHORT_S, self._longest_s)
        count = max(0, self._blocks()) // _BLOCKS_OF_AN_OBJECT
        if count * _COUNTING_S < limit_s:
            count = len(gc.get_objects())
        expected_s = count * self._cost_s
        if expected_s > limit_s:
            self._exclude(count, expected_s)
            return
        began_s = self._clock.now_s()
        gc.collect()
        took_s = self._clock.now_s() - began_s
        self._cost_s = max(_LEAST_COST_S, took_s / max(count, _JUDGED_BY))
        self._left_blocks = max(0, self._blocks())

    def _exclude(self, count: int, expected_s: float) -> None:
        gc.freeze()
        blocks = sys.getallocatedblocks()
        self._excluded_blocks, self._left_blocks = blocks, 0
        if self._most_blocks == sys.maxsize:
            self._least_blocks = blocks // 4
            self._most_blocks = blocks + blocks // 2 + _GROWTH_BLOCKS
        # Until a search has measured it again: this machine may have been busy.
        self._cost_s = _LEAST_COST_S
        log.log(
            logging.WARNING if expected_s > self._longest_s else logging.DEBUG,
            "%d objects are excluded from searches for garbage: one would stop the process for "
            "about %.1f s, more than %.1f s may cost its session",
            count,
            expected_s,
            self._longest_s,
        )

    def _blocks(self) -> int:
        return sys.getallocatedblocks() - self._excluded_blocks


# How long a computing thread may delay the event loop.


# Python's default of 5 ms adds up: each call in the event loop that releases the interpreter lock
# waits for it again. Half a millisecond costs a plan nothing (docs: measured-planning).
_SWITCH_S: Final = 0.0005


def switch_often() -> None:
    """Switch threads often enough for lookups and heartbeats to continue during a plan."""
    sys.setswitchinterval(_SWITCH_S)
