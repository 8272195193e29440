"""Answers go to their callers a few at a time.

A reply of a thousand nodes wakes a thousand tasks; if they all ran in one turn of the loop, a
heartbeat, an order or a lookup that came in the meantime would wait for all of them. This is what
PIP-453 took worker threads for: they let the loop breathe, and so does this.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Callers of one lane that are woken in one turn. With 40 us of work each that is a millisecond;
# their payloads come from one reply, which is bounded too.
MOST_A_TURN: Final = 32


class Completion(Generic[T]):
    """A queue between replies and callers; its bound is that of the requests in flight."""

    def __init__(self, settle: Callable[[Sequence[T]], None]) -> None:
        self._settle = settle
        self._batches: deque[Sequence[T]] = deque()
        self._done = 0  # of the first batch
        self._turn: asyncio.Handle | None = None

    def put(self, batch: Sequence[T]) -> None:
        """Settle these after all that came before."""
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
        # Also where nothing waits yet: what comes in this turn is for the next.
        self._turn = asyncio.get_running_loop().call_soon(self._run)
        self._settle(batch if len(batch) <= MOST_A_TURN else batch[start:end])
