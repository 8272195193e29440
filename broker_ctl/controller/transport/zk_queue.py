"""Transport through ZKQueue (docs: kafka-zkqueue).

    /brokers/state/ID/I    written with the states that it carries, in one transaction;
                           deleted by the broker once it is applied, which acknowledges it

The controller assigns the numbers: they begin with its epoch, so that they are unique and grow. The
queue of a broker that died or restarted is deleted: it was meant for another epoch (KIP-380).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.controller.store.fenced_writer import FencedWrites, ends_term
from broker_ctl.controller.store.loader import pipelined
from broker_ctl.controller.transport.http import AckTimer
from broker_ctl.controller.transport.messages import (
    BROKER_GONE,
    BrokerRequests,
    FullRequests,
    InstructionEncoder,
    RequestsByBroker,
    ResponseListener,
    StopResponse,
)
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.values import BrokersChanged, LiveBroker
from broker_ctl.errors import MultiFailed, NodeExists, NoNode, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import (
    Change,
    Create,
    Delete,
    MetadataStore,
    Notification,
    Operation,
)
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Instructions per controller epoch.
_NUMBERS: Final = 10**10
_CHECK_S: Final = 0.5
ZKQUEUE: Final = "zkqueue"


@dataclass(slots=True)
class _Pending:
    """An instruction without acknowledgement."""

    posted_s: float
    stops: tuple[ReplicaStop, ...] = ()


@dataclass(slots=True)
class _EpochQueue:
    """Pending instructions of one broker epoch, by path, in order.

    Attributes:
        ignored_until: deletions up to this path come from wiping, and acknowledge nothing.
        early_acks: paths applied by the broker before our own write returned.
    """

    broker: LiveBroker
    ack_timer: AckTimer
    ignored_until: str
    early_acks: set[str] = field(default_factory=set)
    pending: dict[str, _Pending] = field(default_factory=dict)
    is_unresponsive: bool = False
    is_overflowing: bool = False


@dataclass(frozen=True, slots=True)
class QueueDependencies:
    """Dependencies of the transport.

    Attributes:
        epoch: of the controller.
        acknowledge_s, max_queued: see `ControllerRules`.
    """

    store: MetadataStore
    writes: FencedWrites
    encoder: InstructionEncoder
    listener: ResponseListener
    clock: Clock
    instruments: ControllerInstruments
    epoch: int
    acknowledge_s: Callable[[], float]
    max_queued: Callable[[], int]


class QueueTransport:
    """`Transport` that creates a node per instruction."""

    def __init__(self, dependencies: QueueDependencies) -> None:
        self._dependencies = dependencies
        self._queues: dict[int, _EpochQueue] = {}
        self._next = dependencies.epoch * _NUMBERS
        self._tasks = TaskScope("instructions")

    def start(self) -> None:
        """Start checking for overdue acknowledgements."""
        self._tasks.keep(self._keep_checking(), "acknowledgements")

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._tasks.close()

    # Sending.

    def operations(self, by_broker: RequestsByBroker) -> Sequence[Operation]:
        """One node per broker and instruction."""
        return [
            Create(self._next_path(queue), body)
            for broker_id, requests in by_broker.items()
            if (queue := self._queues.get(broker_id)) is not None
            for _, body in self._dependencies.encoder.encode(queue.broker, requests)
        ]

    def _next_path(self, queue: _EpochQueue) -> str:
        self._next += 1
        return partition_paths.queued(queue.broker.broker_id, self._next)

    def on_written(self, by_broker: RequestsByBroker, operations: Sequence[Operation]) -> None:
        """See `Transport.on_written`."""
        now_s = self._dependencies.clock.now_s()
        for operation in operations:
            broker_id = partition_paths.broker_of_queued(operation.path)
            queue = None if broker_id is None else self._queues.get(broker_id)
            if queue is None or broker_id is None:
                continue  # the broker died meanwhile
            requests = by_broker[broker_id]
            stops = tuple(each for each in requests.values() if isinstance(each, ReplicaStop))
            queue.ack_timer.add(len(requests), now_s)
            queue.pending[operation.path] = _Pending(now_s, stops)
            if operation.path in queue.early_acks:
                queue.early_acks.discard(operation.path)
                self._acknowledged(queue, [operation.path])
            if len(queue.pending) > self._dependencies.max_queued() and not queue.is_overflowing:
                queue.is_overflowing = True
                self._dependencies.listener.queue_overflowed(broker_id)

    async def prepare_retry(self, by_broker: RequestsByBroker) -> None:
        """See `Transport.prepare_retry`: the parents of the nodes."""
        for broker_id in by_broker:
            await self._make_parent(broker_id)

    async def send(self, by_broker: RequestsByBroker) -> None:
        """See `Transport.send`."""

        async def send(one: tuple[int, BrokerRequests]) -> None:
            broker_id, requests = one
            queue = self._queues.get(broker_id)
            if queue is not None:
                for part, body in self._dependencies.encoder.encode(queue.broker, requests):
                    await self._create(queue, part, body)

        await pipelined(by_broker.items(), send, "instructions")

    async def send_full(self, broker_id: int, requests: FullRequests) -> None:
        """See `Transport.send_full`."""
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        stops = {
            stop.partition: stop for pending in queue.pending.values() for stop in pending.stops
        }
        queue.pending.clear()
        queue.early_acks.clear()
        queue.ignored_until = partition_paths.queued(broker_id, self._next)
        await self._wipe(broker_id, self._next)
        for part, body in self._dependencies.encoder.encode_full(queue.broker, requests):
            await self._create(queue, part, body)
        if stops:
            await self.send({broker_id: {**stops}})
        queue.is_overflowing = False

    async def _create(self, queue: _EpochQueue, requests: BrokerRequests, body: bytes) -> None:
        broker_id = queue.broker.broker_id
        operation = Create(self._next_path(queue), body)
        try:
            await self._dependencies.writes.write([operation])
        except MultiFailed as error:
            if not isinstance(error.cause, NoNode):
                raise
            await self._make_parent(broker_id)
            await self._dependencies.writes.write([operation])
        self.on_written({broker_id: requests}, [operation])

    async def _make_parent(self, broker_id: int) -> None:
        for path in (partition_paths.STATE, partition_paths.queue(broker_id)):
            try:
                await self._dependencies.writes.write([Create(path)])
            except MultiFailed as error:
                if not isinstance(error.cause, NodeExists):
                    raise

    # Brokers.

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Transport.on_brokers_changed`."""
        # A new broker may already have a queue if an earlier event failed halfway.
        for broker_id in changed.dead | changed.bounced | changed.new:
            queue = self._queues.pop(broker_id, None)
            if queue is not None:
                self._report_stops(queue, queue.pending.values(), BROKER_GONE)
        for broker_id in changed.dead | changed.bounced:
            # In the background: leaders have to be elected first.
            self._tasks.start(self._wipe(broker_id, self._next), f"wiping queue {broker_id}")
        for broker_id in changed.new | changed.bounced:
            ignored_until = partition_paths.queued(broker_id, self._next)
            self._queues[broker_id] = _EpochQueue(
                changed.live[broker_id], AckTimer(broker_id), ignored_until
            )

    async def _wipe(self, broker_id: int, last: int) -> None:
        """Delete instructions up to a number; the broker may delete them concurrently."""
        newest = partition_paths.queued(broker_id, last)
        parent = partition_paths.queue(broker_id)
        names = await self._dependencies.store.children(parent)

        async def delete(path: str) -> None:
            try:
                await self._dependencies.writes.write([Delete(path)])
            except MultiFailed as error:
                if not isinstance(error.cause, NoNode):
                    raise
            else:
                self._dependencies.instruments.instructions.add(ZKQUEUE, "dropped")

        stale = [path for name in names if (path := f"{parent}/{name}") <= newest]
        try:
            await pipelined(stale, delete, "wiping")
        except StoreError as error:
            if ends_term(error):
                raise
            log.warning(
                "old instructions in the queue of broker %d could not be deleted: %s",
                broker_id,
                error,
            )

    # Acknowledgements.

    def on_notification(self, notification: Notification) -> None:
        """Handle a created or deleted queue node."""
        if notification.change is not Change.DELETED:
            return
        broker_id = partition_paths.broker_of_queued(notification.path)
        queue = None if broker_id is None else self._queues.get(broker_id)
        if queue is None:
            return
        path = notification.path
        if path in queue.pending:
            self._acknowledged(queue, [path])
        elif path > queue.ignored_until:
            # The reply to our own write has not been handled yet.
            queue.early_acks.add(path)

    def _acknowledged(self, queue: _EpochQueue, paths: Iterable[str]) -> None:
        now_s, instruments = self._dependencies.clock.now_s(), self._dependencies.instruments
        for path in paths:
            pending = queue.pending.pop(path, None)
            if pending is None:
                continue
            instruments.instructions.add(ZKQUEUE, "acknowledged")
            instruments.acknowledge_s.observe(now_s - pending.posted_s, ZKQUEUE)
            self._report_stops(queue, [pending], None)
            if not queue.pending:
                queue.ack_timer.finish(now_s)
            if queue.is_unresponsive:
                queue.is_unresponsive = False
                self._dependencies.listener.responsive(queue.broker.broker_id)

    def _report_stops(
        self, queue: _EpochQueue, acknowledged: Iterable[_Pending], reason: str | None
    ) -> None:
        broker_id = queue.broker.broker_id
        responses = [
            StopResponse(broker_id, stop, reason) for each in acknowledged for stop in each.stops
        ]
        if responses:
            self._dependencies.listener.on_stop_responses(responses)

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            for queue in tuple(self._queues.values()):
                try:
                    await self._check(queue)
                except StoreError as error:
                    # While the store is unreachable no broker can acknowledge.
                    log.debug("cannot check the queue of %d: %s", queue.broker.broker_id, error)

    async def _check(self, queue: _EpochQueue) -> None:
        """Find acknowledgements whose notification was lost, and unresponsive brokers."""
        due_s = self._dependencies.clock.now_s() - self._dependencies.acknowledge_s()
        oldest = next(iter(queue.pending.values()), None)
        if oldest is None or oldest.posted_s > due_s:
            return
        pending = list(queue.pending)
        parent = partition_paths.queue(queue.broker.broker_id)
        existing = {f"{parent}/{name}" for name in await self._dependencies.store.children(parent)}
        # Instructions created since are not in the list.
        self._acknowledged(queue, [path for path in pending if path not in existing])
        oldest = next(iter(queue.pending.values()), None)
        if oldest is not None and oldest.posted_s <= due_s and not queue.is_unresponsive:
            queue.is_unresponsive = True
            self._dependencies.listener.unresponsive(queue.broker.broker_id)
