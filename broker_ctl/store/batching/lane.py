"""When requests are sent, and in which batch: windows, back-pressure, lanes.

When requests are sent, and in which batch.

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
from typing import Any, Final, Generic, Protocol, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import ConnectionLoss, SessionExpired, StoreClosed, StoreError, Throttled
from broker_ctl.store.batching.batch_rules import BatchMetrics, BatchRules
from broker_ctl.store.batching.entries import BatchEntry, Settling, WriteEntry
from broker_ctl.store.interface import BulkStore, RequestClass
from broker_ctl.tasks import TaskScope

# Back-pressure: how many requests may wait for a batch, and for how long.


# Checks for late requests per longest wait.
_CHECKS_PER_WAIT: Final = 20


class Backpressure:
    """All waiting requests, of any lane, oldest first."""

    def __init__(self, most: int, max_wait_s: float, clock: Clock) -> None:
        self._clock = clock
        self._max_requests = most
        self._max_wait_s = max_wait_s
        self._entries: dict[BatchEntry, None] = {}
        self._check_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: BatchEntry) -> None:
        """Add a request.

        Raises:
            Throttled: as many as allowed wait already.
            StoreClosed: the store is closed and sends nothing more.
        """
        self.check_room()
        self._entries[entry] = None
        if self._check_timer is None:
            self._schedule_check()

    def check_room(self) -> None:
        """Raise as `add` if no request may be added."""
        if len(self._entries) >= self._max_requests:
            raise self._refusal()

    def remove(self, entries: Iterable[BatchEntry]) -> None:
        """Remove requests whose batch is sent."""
        for entry in entries:
            self._entries.pop(entry, None)

    def _refusal(self) -> StoreError:
        if not self._max_requests:
            return StoreClosed("the store is closed")
        return Throttled(f"{self._max_requests} requests wait for the store already")

    def fail_writes(self) -> None:
        """Fail all writes: a write of a lost session must not be done by the next session."""
        writes = [entry for entry in self._entries if isinstance(entry, WriteEntry)]
        for entry in writes:
            entry.fail(SessionExpired("the session was lost before it was sent"))
        self.remove(writes)

    def close(self) -> None:
        """Fail all waiting requests, and every later one."""
        self._max_requests = 0
        for entry in self._entries:
            entry.fail(self._refusal())
        self._entries.clear()
        if self._check_timer is not None:
            self._check_timer.cancel()
            self._check_timer = None

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._check_timer = loop.call_later(self._max_wait_s / _CHECKS_PER_WAIT, self._fail_late)

    def _fail_late(self) -> None:
        self._check_timer = None
        now_s = self._clock.now_s()
        while self._entries:
            entry = next(iter(self._entries))
            if now_s - entry.made_s < self._max_wait_s:
                self._schedule_check()
                return
            # The entry stays in its lane's queue, which skips it.
            entry.fail(ConnectionLoss(f"not sent in {self._max_wait_s:.1f} s"))
            del self._entries[entry]


# How much of a class may be in flight: a bound, or a window that follows the round trip.
#
# The window of bulk requests keeps the servers busy without a queue in them that others wait
# behind: ZooKeeper answers the requests of a session in their order. As in TCP Vegas it compares
# the round trip with the one of an idle path, and keeps the difference, which is time in queues,
# within bounds. Vegas takes the shortest round trip for the idle one. Here a batch takes longer
# the more operations it has, and on a busy machine every round trip is long without any queue, so
# the idle round trip and the time that each operation adds are the line through the recent
# samples. Docs: adaptive-concurrency.


# Weight of a sample after each later one: about a hundred samples count.
_MEMORY: Final = 0.99
_FIRST: Final = 128
_FEWEST: Final = 64
# Share of the window that a batch has at least while another is in flight: small batches cost the
# client and the servers more than they gain.
_LEAST_BATCH: Final = 0.25
# Time in queues that is allowed, in idle round trips. With less, servers idle while a reply is on
# its way; with one, the window is the product of bandwidth and delay.
_QUEUED: Final = 2.0
# The window moves by at most this share with a sample, so that one late reply does not close it.
_STEP: Final = 0.05
# Spread of the samples (of their numbers of operations, against the mean) below which they fit any
# line: then the window widens until they differ.
_LEAST_SPREAD: Final = 0.05


class Window(Protocol):
    """Decides how many operations the next batch may have."""

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """Entries that may leave now; 0: none.

        Args:
            batches: in flight.
            operations: entries of those batches.
            waiting: operations of the entries that wait; a transaction has several.
        """
        ...

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """A batch was answered ``took_s`` after it made ``in_flight`` operations."""
        ...


class FixedWindow:
    """A number of batches."""

    def __init__(self, max_batches: int, max_operations: int) -> None:
        self._max_batches = max_batches
        self._max_operations = max_operations

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """See `Window.room`."""
        del operations, waiting
        return self._max_operations if batches < self._max_batches else 0

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """See `Window.on_reply`."""


class AdaptiveWindow:
    """A number of operations.

    Attributes:
        operations: how many may be in flight now.
    """

    def __init__(self, max_batches: int, max_operations: int) -> None:
        self._max_batches = max_batches
        self._most = float(max_batches * max_operations)
        self.operations = min(float(_FIRST), self._most)
        # Sums over the samples, older ones weighing less: 1, operations, seconds, and products.
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """See `Window.room`.

        A batch has half of the window, unless it has all that waits. While callers are still to be
        woken, more will wait soon: with others in flight, a batch is not sent for a few.
        """
        room = int(self.operations) - operations
        if batches >= self._max_batches or room < min(waiting, self.operations / 2):
            return 0
        if batches and waiting < self.operations * _LEAST_BATCH:
            return 0
        return max(room, 0)

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """See `Window.on_reply`."""
        self._n = self._n * _MEMORY + 1.0
        self._x = self._x * _MEMORY + in_flight
        self._y = self._y * _MEMORY + took_s
        self._xx = self._xx * _MEMORY + in_flight * in_flight
        self._xy = self._xy * _MEMORY + in_flight * took_s
        if in_flight >= self.operations / 2:  # otherwise the window holds nothing back
            wanted = min(max(self._wanted(), _FEWEST), self._most)
            step = self.operations * _STEP
            self.operations += min(max(wanted - self.operations, -step), step)

    def _wanted(self) -> float:
        """The window whose time in queues is the allowed one, as the samples have it."""
        mean, mean_s = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean * mean
        if spread < (mean * _LEAST_SPREAD) ** 2:
            return self._most
        per_operation_s = (self._xy / self._n - mean * mean_s) / spread
        idle_s = mean_s - per_operation_s * mean
        if per_operation_s <= 0:
            return self._most
        return max(_QUEUED * idle_s / per_operation_s, 0.0)


# Two requests that were sent alone, and the batch of those that came in the same turn.
_MOST_AT_ONCE: Final = 3

E = TypeVar("E", bound=BatchEntry)


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

    def deadline_s(self, batch: Iterable[BatchEntry]) -> float:
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
        is_settling: Callable[[], bool],
        cut: Callable[[deque[E], int], list[E]],
        send: Callable[[list[E]], None],
    ) -> None:
        self._rules = rules
        self._is_settling = is_settling
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
            (rules.is_adaptive and self.in_flight < self._at_once and not self._gathers)
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
        return not self.in_flight or (
            self._is_eager and not self._is_settling() and self._room() > 0
        )

    @property
    def _gathers(self) -> bool:
        """Whether more will wait soon, and a reply will come: callers are still to be woken.

        Each turn wakes a few. If what they ask for left with that turn, thousands of callers would
        share batches of a handful, and the work of a batch would be theirs alone.
        """
        return self.in_flight > 0 and self._is_settling()

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
        if self._queue and (self._is_due or (self._rules.is_adaptive and not self._gathers)):
            self._flush()
        if self.neighbour is not None:
            self.neighbour.on_neighbour_reply()

    def on_neighbour_reply(self) -> None:
        """Handle a reply in the other lane.

        The connection has room, so it is as good a moment to send as a reply of this lane.
        """
        if self._rules.is_adaptive and self._queue and not self._gathers:
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
