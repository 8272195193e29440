"""Requests take turns with the other work of the event loop, above all the session's heartbeats.

Each iteration of the loop starts requests for a bounded time; any further ones wait for one of the
next iterations, and their connections are not read meanwhile. A handler that does not wait for
anything runs to its end, so the longest iteration has one such handler more.

Commands and health checks wait in a queue of their own, which goes first: they are answered quickly
however many clients there are.
"""

import asyncio
from collections import OrderedDict
from itertools import islice
from typing import Final

from broker_ctl.clock import Clock

# Some 40 requests. A heartbeat takes a few iterations.
_TURN_S: Final = 0.010
# More requests than that do not fit into a turn.
_MAX_WOKEN: Final = 64


class Turns:
    """Decides in which iteration of the loop a request is started; in the order of arrival."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._urgent = _Waiting()
        self._others = _Waiting()
        self._is_begun = False
        self._is_unused = True
        self._ends_s = 0.0

    def take(self) -> bool:
        """Whether a request may start now: nobody waits, and the turn has time left."""
        if self._urgent or self._others:
            return False
        if not self._is_begun:
            self._begin()
        return self._has_time()

    async def wait(self, *, is_urgent: bool) -> float:
        """Wait for a turn; the number of seconds that it took.

        Other requests are answered meanwhile, and this one's client may have left.
        """
        began_s = self._clock.now_s()
        if not self._is_begun:
            self._begin()
        waiting = self._urgent if is_urgent else self._others
        # Urgent requests wait for each other only, and for the time that the turn has.
        if not (is_urgent and not waiting and self._has_time()):
            await self._queue(waiting)
        return self._clock.now_s() - began_s

    async def _queue(self, waiting: "_Waiting") -> None:
        place = object()
        woken = waiting[place] = asyncio.get_running_loop().create_future()
        try:
            while True:
                await woken
                if self._has_time():
                    return
                # The same place, at the front of the queue.
                woken = waiting[place] = asyncio.get_running_loop().create_future()
        finally:
            del waiting[place]

    def _has_time(self) -> bool:
        """Whether the turn has time for one more, which it always has for the first."""
        if self._is_unused:
            self._is_unused = False
            return True
        return self._clock.now_s() < self._ends_s

    def _begin(self) -> None:
        self._is_begun = self._is_unused = True
        self._ends_s = self._clock.now_s() + _TURN_S
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """Run at the start of the next iteration: the next turn begins with those who wait."""
        self._is_begun = False
        if not self._urgent and not self._others:
            return
        self._begin()
        # The urgent ones first: the loop resumes tasks in this order.
        for waiting in (self._urgent, self._others):
            for woken in islice(waiting.values(), _MAX_WOKEN):
                if not woken.done():
                    woken.set_result(None)


class _Waiting(OrderedDict[object, asyncio.Future[None]]):
    """Requests in the order of arrival. A dict that shrinks at its front is slow to iterate."""
