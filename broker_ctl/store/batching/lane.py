"""When requests are sent, and in which batch.

    adaptive      at once while nothing of the lane is in flight; else on a reply, its own or one
                  of the other lane, when the oldest has waited for the longest delay, or when a
                  batch is full
    fixed delay   on the delay or when a batch is full only, as Pulsar does

Both modes send only while fewer batches are in flight than the bound allows: requests that wait
here can still be batched with later ones, and leave the connection to the control lane.
Docs: pip-453, pulsar-batching.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.store.batching.backpressure import Backpressure
from broker_ctl.store.batching.batch_metrics import BatchMetrics
from broker_ctl.store.batching.entries import Entry
from broker_ctl.store.batching.rules import BatchRules
from broker_ctl.store.interface import BulkStore
from broker_ctl.tasks import TaskScope

E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class LaneDependencies:
    """What the lanes of one store share."""

    store: BulkStore
    rules: BatchRules
    clock: Clock
    tasks: TaskScope
    waiting: Backpressure
    metrics: BatchMetrics | None

    def deadline_s(self, batch: Iterable[Entry]) -> float:
        """When the oldest of a batch must have ended, on the loop's clock."""
        waited_s = self.clock.now_s() - min(entry.made_s for entry in batch)
        left_s = self.rules.operation_timeout_s - waited_s
        return asyncio.get_running_loop().time() + left_s


class Lane(Generic[E]):
    """A queue of requests that have their turn on their paths.

    ``cut`` takes a batch from its head.
    """

    def __init__(
        self,
        rules: BatchRules,
        max_bytes: float,
        *,
        cut: Callable[[deque[E]], list[E]],
        send: Callable[[list[E]], None],
    ) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._cut = cut
        self._send = send
        self._queue: deque[E] = deque()
        self._size_bytes = 0.0
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # only the bound on batches in flight holds the queue back
        self.neighbour: Lane[Any] | None = None  # on the same connection
        self.in_flight = 0

    def __len__(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    def put(self, entry: E) -> None:
        """Wait at the end of the queue."""
        queue, rules = self._queue, self._rules
        queue.append(entry)
        self._size_bytes += entry.size_bytes
        if self._soon is not None:
            return
        if (
            (rules.is_adaptive and not self.in_flight)
            or len(queue) >= rules.max_operations
            or self._size_bytes >= self._max_bytes
        ):
            # At the end of this iteration of the loop: later requests of the iteration join the
            # batch.
            if self.in_flight < rules.max_in_flight:
                self._soon = asyncio.get_running_loop().call_soon(self._flush)
            else:
                self._is_due = True
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(rules.max_delay_s, self._delay_over)

    def on_reply(self) -> None:
        """Handle the reply to a batch of this lane: send the next batch if it is due."""
        self.in_flight -= 1
        if self._rules.is_adaptive or self._is_due:
            self._flush()
        if self.neighbour is not None:
            self.neighbour.on_neighbour_reply()

    def on_neighbour_reply(self) -> None:
        """Handle a reply in the other lane.

        The connection has room, so it is as good a moment to send as a reply of this lane.
        """
        if self._rules.is_adaptive and self._queue:
            self._flush()

    def discard(self, entry: E) -> None:
        """Account for an entry that ``cut`` removed because its caller has given up."""
        self._size_bytes -= entry.size_bytes

    def _delay_over(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        self._stop_waiting()
        while self._queue and self.in_flight < self._rules.max_in_flight:
            batch = self._cut(self._queue)
            if self._queue:
                self._size_bytes -= sum(entry.size_bytes for entry in batch)
            if batch:
                self.in_flight += 1
                self._send(batch)
        self._is_due = bool(self._queue)
        if not self._queue:
            self._size_bytes = 0.0  # sums of fractions drift

    def _stop_waiting(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
