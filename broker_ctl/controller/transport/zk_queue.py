"""Instructions through ZKQueue (docs: kafka-zkqueue).

    /brokers/state/ID/I    written with the states it tells of, in one transaction;
                           deleted by the broker once it is applied, which acknowledges it

The controller draws the numbers: they begin with its epoch, so that no two are equal and a later
one is always larger. What waits for a broker that is gone, or was, is wiped: it was meant for
another life (KIP-380).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.controller.store.fenced_writer import FencedWrites, ends_leading
from broker_ctl.controller.store.pipelining import pipelined
from broker_ctl.controller.transport.ack_timer import AckTimer
from broker_ctl.controller.transport.messages import (
    BROKER_GONE,
    InstructionEncoder,
    Lot,
    Mail,
    ResponseListener,
    StopAnswer,
)
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.values import BrokersChanged, LiveBroker
from broker_ctl.errors import MultiFailed, NodeExists, NoNode, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import partition_paths
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

# Numbers of one epoch.
_NUMBERS: Final = 10**10
_CHECK_S: Final = 0.5
_LABEL: Final = "zkqueue"


@dataclass(slots=True)
class _Waiting:
    """An instruction that is not acknowledged."""

    posted_s: float
    stops: tuple[ReplicaStop, ...] = ()


@dataclass(slots=True)
class _Queue:
    """What waits for one life of a broker, by path, in order.

    Attributes:
        begin: what goes up to this path acknowledges nothing: it was wiped, or is to be.
        early: applied before we have heard that they were written.
    """

    broker: LiveBroker
    told: AckTimer
    begin: str
    early: set[str] = field(default_factory=set)
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    is_silent: bool = False
    is_overflowing: bool = False


@dataclass(frozen=True, slots=True)
class QueueDependencies:
    """What the transport stands on.

    Attributes:
        epoch: of the controller.
        acknowledge_s, max_queued: see `ControllerRules`.
    """

    store: MetadataStore
    writes: FencedWrites
    writer: InstructionEncoder
    postbox: ResponseListener
    clock: Clock
    instruments: ControllerInstruments
    epoch: int
    acknowledge_s: Callable[[], float]
    max_queued: Callable[[], int]


class QueueTransport:
    """`Transport` that leaves nodes for brokers."""

    def __init__(self, parts: QueueDependencies) -> None:
        self._parts = parts
        self._queues: dict[int, _Queue] = {}
        self._next = parts.epoch * _NUMBERS
        self._tasks = TaskScope("instructions")

    def start(self) -> None:
        """Look after acknowledgements that do not come."""
        self._tasks.keep(self._keep_checking(), "acknowledgements")

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._tasks.close()

    # Sending.

    def operations(self, mail: Mail) -> Sequence[Operation]:
        """One node for each recipient."""
        return [
            Create(self._draw(queue), body)
            for broker_id, lot in mail.items()
            if (queue := self._queues.get(broker_id)) is not None
            for _, body in self._parts.writer.instructions(queue.broker, lot)
        ]

    def _draw(self, queue: _Queue) -> str:
        self._next += 1
        return partition_paths.queued(queue.broker.broker_id, self._next)

    def written(self, mail: Mail, operations: Sequence[Operation]) -> None:
        """See `Transport.written`."""
        now_s = self._parts.clock.now_s()
        for operation in operations:
            broker_id = partition_paths.broker_of_queued(operation.path)
            queue = None if broker_id is None else self._queues.get(broker_id)
            if queue is None or broker_id is None:
                continue  # it died meanwhile
            lot = mail[broker_id]
            stops = tuple(each for each in lot.values() if isinstance(each, ReplicaStop))
            queue.told.posted(len(lot), now_s)
            queue.waiting[operation.path] = _Waiting(now_s, stops)
            if operation.path in queue.early:
                queue.early.discard(operation.path)
                self._acknowledged(queue, [operation.path])
            if len(queue.waiting) > self._parts.max_queued() and not queue.is_overflowing:
                queue.is_overflowing = True
                self._parts.postbox.overflowed(broker_id)

    async def prepare(self, mail: Mail) -> None:
        """See `Transport.prepare`: the parents of the nodes."""
        for broker_id in mail:
            await self._make_parent(broker_id)

    async def post(self, mail: Mail) -> None:
        """See `Transport.post`."""

        async def post(letters: tuple[int, Lot]) -> None:
            broker_id, lot = letters
            queue = self._queues.get(broker_id)
            if queue is not None:
                for part, body in self._parts.writer.instructions(queue.broker, lot):
                    await self._create(queue, part, body)

        await pipelined(mail.items(), post, "letters")

    async def post_full(self, broker_id: int, lot: Lot) -> None:
        """See `Transport.post_full`."""
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        stops = {
            stop.partition: stop for waiting in queue.waiting.values() for stop in waiting.stops
        }
        queue.waiting.clear()
        queue.early.clear()
        queue.begin = partition_paths.queued(broker_id, self._next)
        await self._wipe(broker_id, self._next)
        for part, body in self._parts.writer.full_instructions(queue.broker, lot):
            await self._create(queue, part, body)
        if stops:
            await self.post({broker_id: {**stops}})
        queue.is_overflowing = False

    async def _create(self, queue: _Queue, lot: Lot, body: bytes) -> None:
        broker_id = queue.broker.broker_id
        operation = Create(self._draw(queue), body)
        try:
            await self._parts.writes.write([operation])
        except MultiFailed as error:
            if not isinstance(error.cause, NoNode):
                raise
            await self._make_parent(broker_id)
            await self._parts.writes.write([operation])
        self.written({broker_id: lot}, [operation])

    async def _make_parent(self, broker_id: int) -> None:
        for path in (partition_paths.STATE, partition_paths.queue(broker_id)):
            try:
                await self._parts.writes.write([Create(path)])
            except MultiFailed as error:
                if not isinstance(error.cause, NodeExists):
                    raise

    # Brokers.

    async def brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Transport.brokers_changed`."""
        # A new one was told of before where doing so was not carried through.
        for broker_id in changed.dead | changed.bounced | changed.new:
            queue = self._queues.pop(broker_id, None)
            if queue is not None:
                self._answer(queue, queue.waiting.values(), BROKER_GONE)
        for broker_id in changed.dead | changed.bounced:
            # Nobody waits for that: there are leaders to be elected.
            self._tasks.start(self._wipe(broker_id, self._next), f"wiping queue {broker_id}")
        for broker_id in changed.new | changed.bounced:
            begin = partition_paths.queued(broker_id, self._next)
            self._queues[broker_id] = _Queue(changed.live[broker_id], AckTimer(broker_id), begin)

    async def _wipe(self, broker_id: int, last: int) -> None:
        """Delete what was left there up to a number; the broker may be deleting it, too."""
        newest = partition_paths.queued(broker_id, last)
        parent = partition_paths.queue(broker_id)
        names = await self._parts.store.children(parent)

        async def delete(path: str) -> None:
            try:
                await self._parts.writes.write([Delete(path)])
            except MultiFailed as error:
                if not isinstance(error.cause, NoNode):
                    raise
            else:
                self._parts.instruments.instructions.add(_LABEL, "dropped")

        stale = [path for name in names if (path := f"{parent}/{name}") <= newest]
        try:
            await pipelined(stale, delete, "wiping")
        except StoreError as error:
            if ends_leading(error):
                raise
            log.warning("queue of broker %d keeps old instructions: %s", broker_id, error)

    # Acknowledgements.

    def heard(self, notification: Notification) -> None:
        """A node of a queue came or went."""
        if notification.change is not Change.DELETED:
            return
        broker_id = partition_paths.broker_of_queued(notification.path)
        queue = None if broker_id is None else self._queues.get(broker_id)
        if queue is None:
            return
        path = notification.path
        if path in queue.waiting:
            self._acknowledged(queue, [path])
        elif path > queue.begin:
            # Our own reply is still on its way through the loop.
            queue.early.add(path)

    def _acknowledged(self, queue: _Queue, paths: Iterable[str]) -> None:
        now_s, instruments = self._parts.clock.now_s(), self._parts.instruments
        for path in paths:
            waiting = queue.waiting.pop(path, None)
            if waiting is None:
                continue
            instruments.instructions.add(_LABEL, "acknowledged")
            instruments.acknowledge_ms.observe((now_s - waiting.posted_s) * 1000, _LABEL)
            self._answer(queue, [waiting], None)
            if not queue.waiting:
                queue.told.answered(now_s)
            if queue.is_silent:
                queue.is_silent = False
                self._parts.postbox.spoke_again(queue.broker.broker_id)

    def _answer(self, queue: _Queue, of: Iterable[_Waiting], reason: str | None) -> None:
        broker_id = queue.broker.broker_id
        answers = [StopAnswer(broker_id, stop, reason) for each in of for stop in each.stops]
        if answers:
            self._parts.postbox.stops_answered(answers)

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            for queue in tuple(self._queues.values()):
                try:
                    await self._check(queue)
                except StoreError as error:
                    # Without the store nobody could have acknowledged anything.
                    log.debug("queue of broker %d: %s", queue.broker.broker_id, error)

    async def _check(self, queue: _Queue) -> None:
        """Find acknowledgements of which the connection has lost the news, and brokers silent."""
        due_s = self._parts.clock.now_s() - self._parts.acknowledge_s()
        oldest = next(iter(queue.waiting.values()), None)
        if oldest is None or oldest.posted_s > due_s:
            return
        known = list(queue.waiting)
        parent = partition_paths.queue(queue.broker.broker_id)
        there = {f"{parent}/{name}" for name in await self._parts.store.children(parent)}
        # What was created since was not among the known ones.
        self._acknowledged(queue, [path for path in known if path not in there])
        oldest = next(iter(queue.waiting.values()), None)
        if oldest is not None and oldest.posted_s <= due_s and not queue.is_silent:
            queue.is_silent = True
            self._parts.postbox.fell_silent(queue.broker.broker_id)
