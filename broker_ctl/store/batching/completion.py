"""Delivers answers to their callers a few at a time.

A reply of a thousand nodes wakes a thousand tasks; if they all ran in one iteration of the loop, a
heartbeat, a command or a lookup that arrived meanwhile would wait for all of them. PIP-453 uses
worker threads for the same purpose.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Callers of one lane that one iteration of the loop wakes. With 40 us of work each they take about
# a millisecond; their payloads come from one reply, which is bounded too.
MOST_A_TURN: Final = 32


class Completion(Generic[T]):
    """A queue between replies and callers, bounded by the number of requests in flight."""

    def __init__(self, settle: Callable[[Sequence[T]], None]) -> None:
        self._settle = settle
        self._batches: deque[Sequence[T]] = deque()
        self._done = 0  # of the first batch
        self._turn: asyncio.Handle | None = None

    def put(self, batch: Sequence[T]) -> None:
        """Queue these; they are settled after everything that was queued earlier."""
        self._batches.append(batch)
        if self._turn is None:
            self._run()

    def _run(self) -> None:
        if not self._batches:
            self._turn = None
            return
        batch, start = self._batches[0], self._done
        end = start + MOST_A_TURN
        if end >= len(batch):
            self._batches.popleft()
            self._done = 0
        else:
            self._done = end
        # Even if the queue is empty now: entries that arrive in this iteration are settled in the
        # next.
        self._turn = asyncio.get_running_loop().call_soon(self._run)
        self._settle(batch if len(batch) <= MOST_A_TURN else batch[start:end])
