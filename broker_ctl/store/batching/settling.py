"""Delivers answers to their callers, class by class and a few at a time.

A reply of a thousand nodes wakes a thousand tasks; if they all ran in one turn of the loop, a
heartbeat, a command or a lookup that arrived meanwhile would wait for all of them. PIP-453 uses
worker threads for the same purpose. Here the answers of a more urgent class come first, and the
number of callers that a turn wakes follows from how long the last turns took: the work of callers
is not known, and it is theirs that makes a turn long.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.store.request_class import RequestClass

# How long a turn of the loop may take before fewer callers are woken in the next. A request passes
# some four turns: to its call, to its task, to its reply, and back to its task.
TURN_S: Final = 0.0005
FEWEST_A_TURN: Final = 8
MOST_A_TURN: Final = 256
_FIRST: Final = 16
_FASTER: Final = 4
_SLOWER: Final = 0.75
# Share of a turn that classes in front leave to those behind them, so that none starves.
_LEFT: Final = 8

Settle = Callable[[Sequence[Any]], None]


class Settling:
    """Queues between replies and callers, bounded by the number of requests in flight."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: tuple[deque[tuple[Sequence[Any], Settle]], ...] = tuple(
            deque() for _ in RequestClass
        )
        self._done = [0 for _ in RequestClass]  # of the first batch
        self._turn: asyncio.Handle | None = None
        self._began_s = 0.0
        self._quota = _FIRST

    def put(self, request_class: RequestClass, batch: Sequence[Any], settle: Settle) -> None:
        """Queue these; they are settled after all of their class that was queued earlier."""
        self._queues[request_class].append((batch, settle))
        if self._turn is None:
            self._began_s = 0.0
            self._run()

    def _run(self) -> None:
        if not any(self._queues):
            self._turn = None
            return
        self._adapt()
        # Even if the queues are empty afterwards: entries that arrive in this turn are settled in
        # the next.
        self._turn = asyncio.get_running_loop().call_soon(self._run)
        left = self._quota
        for place, queue in enumerate(self._queues):
            if queue:
                left -= self._settle(place, queue, max(left, 1 + self._quota // _LEFT))

    def _settle(self, place: int, queue: deque[tuple[Sequence[Any], Settle]], most: int) -> int:
        settled = 0
        while queue and settled < most:
            (batch, settle), start = queue[0], self._done[place]
            end = min(start + most - settled, len(batch))
            if end == len(batch):
                queue.popleft()
                self._done[place] = 0
            else:
                self._done[place] = end
            settled += end - start
            settle(batch if end - start == len(batch) else batch[start:end])
        return settled

    def _adapt(self) -> None:
        """Wake fewer callers in the next turn if the last one took too long, else more."""
        now_s = self._clock.cpu_s()
        if self._began_s:
            if now_s - self._began_s > TURN_S:
                self._quota = max(FEWEST_A_TURN, int(self._quota * _SLOWER))
            else:
                self._quota = min(MOST_A_TURN, self._quota + _FASTER)
        self._began_s = now_s
