"""The metadata store that combines the requests of many callers into few batches.

The metadata store that combines the requests of many callers into few batches.

    caller -> turn on its paths -> lane of its class -> batch -> connection -> settling -> caller

Each class of requests has a lane for reads and one for writes; the class is that of the task that
asks. What is in flight of bulk requests follows the round trip, and answers are settled class by
class, so that a storm of loads delays neither lookups nor heartbeats. `control`, the store
underneath, bypasses all queues. On a path, requests are executed and answered in the order in which
they were made, whatever their classes; reads of different classes may overtake each other.
Docs: pip-453, pulsar-batching, adaptive-concurrency.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.batch_rules import BatchMetrics, BatchRules
from broker_ctl.store.batching.entries import (
    PathOrder,
    ReadEntry,
    ReadOfSeveral,
    ReadsTogether,
    Settling,
    WriteEntry,
)
from broker_ctl.store.batching.lane import (
    AdaptiveWindow,
    Backpressure,
    FixedWindow,
    LaneDependencies,
    Window,
)
from broker_ctl.store.batching.reads import Reads
from broker_ctl.store.batching.writes import Writes
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    REQUEST_CLASS,
    Aspect,
    BulkStore,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    RequestClass,
    Result,
    SessionEvent,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import validate
from broker_ctl.tasks import TaskScope

# The lanes of one class of requests: its reads and its writes.


class ClassLanes:
    """Reads and writes of one class on one connection."""

    def __init__(
        self, shared: LaneDependencies, on_leave: Callable[[ReadEntry | WriteEntry], None]
    ) -> None:
        rules = shared.rules

        is_bulk = shared.request_class is RequestClass.BULK
        bound = AdaptiveWindow if is_bulk and rules.follows_round_trip else FixedWindow

        def window() -> Window:
            return bound(rules.max_in_flight, rules.max_operations)

        self.reads = Reads(shared, window(), on_leave)
        self.writes = Writes(shared, window(), on_leave)
        self.reads.lane.neighbour = self.writes.lane
        self.writes.lane.neighbour = self.reads.lane


T = TypeVar("T")


class BatchedStore(ForwardingStore):
    """`MetadataStore` whose requests travel in batches."""

    def __init__(
        self,
        store: BulkStore,
        rules: BatchRules,
        clock: Clock,
        instruments: StoreInstruments | None = None,
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._tasks = TaskScope(f"{store.name}-batch-flusher")
        self._order = PathOrder[ReadEntry | WriteEntry]()
        self._waiting = Backpressure(rules.max_waiting, rules.operation_timeout_s, clock)
        metrics = BatchMetrics(instruments, store.name, clock) if instruments is not None else None
        settling = Settling(clock)
        self._lanes = tuple(
            ClassLanes(
                LaneDependencies(
                    store=store,
                    rules=rules,
                    clock=clock,
                    tasks=self._tasks,
                    waiting=self._waiting,
                    metrics=metrics,
                    settling=settling,
                    request_class=request_class,
                ),
                self._leave,
            )
            for request_class in RequestClass
        )
        store.listen(self._on_session_event)

    @property
    def control(self) -> MetadataStore:
        """The store underneath, which bypasses the lanes and their order of requests on a path."""
        return self._inner

    @property
    def waiting(self) -> int:
        """Requests whose batch is not sent yet."""
        return len(self._waiting)

    @property
    def in_flight(self) -> dict[str, int]:
        """Batches without a reply, by lane."""
        return {
            "read": sum(lanes.reads.lane.in_flight for lanes in self._lanes),
            "write": sum(lanes.writes.lane.in_flight for lanes in self._lanes),
        }

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        validate(path)
        reads = self._lanes[REQUEST_CLASS.get()].reads
        if self._enter_alone(reads, path):
            return await self._read_alone(reads, path, self._inner.get(path), "get")
        node: Versioned | None = await self._read(path, Aspect.NODE)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore.get_many`; the reads are batched with those of other callers."""
        for path in paths:
            validate(path)
        if not paths:
            return []
        together = ReadsTogether(len(paths), asyncio.get_running_loop().create_future())
        reads, made_s = self._lanes[REQUEST_CLASS.get()].reads, self._clock.now_s()
        try:
            for number, path in enumerate(paths):
                one = ReadOfSeveral(together, number)
                self._enter(ReadEntry(path, Aspect.NODE, one, made_s, reads.put), reads)
            await together.future
        finally:
            # Even if only some were accepted: no caller will await the answers of the others.
            together.future.cancel()
        if together.failures:
            raise together.failures[min(together.failures)]
        return together.answers

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore.exists`."""
        validate(path)
        reads = self._lanes[REQUEST_CLASS.get()].reads
        if self._enter_alone(reads, path):
            return await self._read_alone(reads, path, self._inner.exists(path))
        stat: Stat | None = await self._read(path, Aspect.STAT)
        return stat

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        validate(path)
        reads = self._lanes[REQUEST_CLASS.get()].reads
        if self._enter_alone(reads, path):
            return await self._read_alone(reads, path, self._inner.children(path))
        names: list[str] = await self._read(path, Aspect.CHILDREN)
        return names

    # Writes.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore.create`."""
        # The server appends digits, so a sequential name may end with a slash.
        validate(path + "0" if mode.is_sequential else path)
        operation = Create(path, data, mode, ttl_ms)
        created: Versioned = await self._write((operation,), makes_parents=make_parents)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        validate(path)
        stat: Stat = await self._write((SetData(path, data, version),))
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        validate(path)
        await self._write((Delete(path, version),))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore.multi`."""
        if not operations:
            return ()
        for operation in operations:
            is_numbered = isinstance(operation, Create) and operation.mode.is_sequential
            validate(operation.path + "0" if is_numbered else operation.path)
        results: tuple[Result, ...] = await self._write(tuple(operations), is_transaction=True)
        return results

    # The session, and requests that are not batched, belong to the inner store.

    async def close(self, *, end_session: bool = True) -> None:
        """See `MetadataStore`."""
        self._waiting.close()
        await self._inner.close(end_session=end_session)
        # A task that is cancelled before its first step would leave its callers waiting for ever.
        await asyncio.sleep(0)
        await self._tasks.close()

    # Inside.

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._waiting.fail_writes()

    def _enter_alone(self, reads: Reads, path: str) -> bool:
        """Whether a read may be sent by its caller; then `_read_alone` has to follow."""
        # The path alone: an answer out of a batch is settled later than one that its caller awaits,
        # and no reader of the path may overtake another.
        if not reads.lane.is_open or not self._order.acquire_exclusive(path):
            return False
        reads.lane.enter_alone()
        return True

    async def _read_alone(
        self, reads: Reads, path: str, read: Awaitable[T], kind: str | None = None
    ) -> T:
        try:
            return await reads.alone(read, kind)
        finally:
            self._queue(self._order.leave((path,)))

    def _read(self, path: str, aspect: Aspect) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        reads = self._lanes[REQUEST_CLASS.get()].reads
        future: asyncio.Future[Any] = loop.create_future()
        self._enter(ReadEntry(path, aspect, future, self._clock.now_s(), reads.put), reads)
        return future

    def _enter(self, entry: ReadEntry, reads: Reads) -> None:
        self._waiting.add(entry)
        if self._order.acquire_shared(entry.path) or self._order.enter(entry):
            reads.put(entry)

    def _write(
        self,
        operations: tuple[Operation, ...],
        *,
        is_transaction: bool = False,
        makes_parents: bool = False,
    ) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        writes = self._lanes[REQUEST_CLASS.get()].writes
        future: asyncio.Future[Any] = loop.create_future()
        made_s = self._clock.now_s()
        entry = WriteEntry(operations, future, made_s, writes.put, is_transaction=is_transaction)
        entry.makes_parents = makes_parents
        self._waiting.add(entry)
        if self._order.enter(entry):
            writes.put(entry)
        return future

    def _leave(self, entry: ReadEntry | WriteEntry) -> None:
        """Release the paths of ``entry``, and queue the entries that waited for them."""
        if isinstance(entry, ReadEntry) and self._order.release_shared(entry.path):
            return  # the usual case: no other entry waited
        self._queue(self._order.leave(entry.claims))

    def _queue(self, found: list[ReadEntry | WriteEntry]) -> None:
        """Queue entries that have their turn on all their paths."""
        while found:
            ready = found.pop(0)
            if ready.future.done():
                self._waiting.remove((ready,))  # given up while it waited for its turn
                found += self._order.leave(ready.claims)
            else:
                ready.put(ready)
