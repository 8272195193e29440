"""When requests are sent, and in which batch.

    adaptive      at once while little of the lane is in flight; else on a reply, its own or one of
                  the other lane of the class, when the oldest has waited for the longest delay, or
                  when a batch is full
    fixed delay   on the delay or when a batch is full only, as Pulsar does

Both send only while the lane's window has room: requests that wait here can still be batched with
later ones, and leave the connection to more urgent classes. A read that comes while little is in
flight is sent by its caller, without a batch: nothing is scheduled for it.
Docs: pip-453, pulsar-batching.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.store.batching.backpressure import Backpressure
from broker_ctl.store.batching.batch_metrics import BatchMetrics
from broker_ctl.store.batching.entries import Entry
from broker_ctl.store.batching.rules import BatchRules
from broker_ctl.store.batching.settling import Settling
from broker_ctl.store.batching.window import Window
from broker_ctl.store.interface import BulkStore
from broker_ctl.store.request_class import RequestClass
from broker_ctl.tasks import TaskScope

# Two requests that were sent alone, and the batch of those that came in the same turn.
_MOST_AT_ONCE: Final = 3

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
    settling: Settling
    request_class: RequestClass

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
        window: Window,
        *,
        is_eager: bool,
        cut: Callable[[deque[E], int], list[E]],
        send: Callable[[list[E]], None],
    ) -> None:
        self._rules = rules
        self._window = window
        self._is_eager = is_eager
        # Batches in flight up to which a request does not wait for others.
        self._at_once = _MOST_AT_ONCE if is_eager else 1
        self._max_bytes = max_bytes
        self._cut = cut
        self._send = send
        self._queue: deque[E] = deque()
        self._size_bytes = 0.0
        self._weight = 0  # of all that waits
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # only the bound on batches in flight holds the queue back
        self.neighbour: Lane[Any] | None = None  # on the same connection
        self.in_flight = 0
        self.operations = 0  # of the batches in flight
        self._is_burst = False  # of this turn

    def __len__(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    def put(self, entry: E) -> None:
        """Wait at the end of the queue."""
        queue, rules = self._queue, self._rules
        queue.append(entry)
        self._size_bytes += entry.size_bytes
        self._weight += entry.weight
        if self._soon is not None:
            return
        if (
            (rules.is_adaptive and self.in_flight < self._at_once)
            or len(queue) >= rules.max_operations
            or self._size_bytes >= self._max_bytes
        ):
            # At the end of this turn of the loop: later requests of the turn join the batch.
            if self._room():
                self._soon = asyncio.get_running_loop().call_soon(self._flush)
            else:
                self._is_due = True
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(rules.max_delay_s, self._delay_over)

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent by its caller, without a batch: see `enter_alone`.

        Requests of one turn of the loop share a batch from the third on.
        """
        if self._queue or self._is_burst or not self._rules.is_adaptive:
            return False
        return not self.in_flight or (self._is_eager and self._room() > 0)

    def enter_alone(self) -> None:
        """Count a request that its caller sends now; `on_reply` has to follow."""
        if self.in_flight:
            self._is_burst = True
            asyncio.get_running_loop().call_soon(self._turn_over)
        self.in_flight += 1
        self.operations += 1

    def _turn_over(self) -> None:
        self._is_burst = False

    def _room(self) -> int:
        return self._window.room(self.in_flight, self.operations, self._weight)

    def on_round_trip(self, in_flight: int, took_s: float) -> None:
        """Learn from a reply that came ``took_s`` after its batch made it ``in_flight``."""
        self._window.on_reply(in_flight, took_s)

    def on_reply(self, operations: int) -> None:
        """Handle the reply to a batch of this lane: send the next batch if it is due."""
        self.in_flight -= 1
        self.operations -= operations
        if self._queue and (self._rules.is_adaptive or self._is_due):
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
        self._weight -= entry.weight

    def _delay_over(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        self._stop_waiting()
        while self._queue and (room := self._room()):
            batch = self._cut(self._queue, min(room, self._rules.max_operations))
            if self._queue:
                self._size_bytes -= sum(entry.size_bytes for entry in batch)
                self._weight -= sum(entry.weight for entry in batch)
            if batch:
                self.in_flight += 1
                self.operations += len(batch)
                self._send(batch)
        self._is_due = bool(self._queue)
        if not self._queue:
            self._size_bytes, self._weight = 0.0, 0  # sums of fractions drift

    def _stop_waiting(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
