"""The metadata store that combines the requests of many callers into few batches.

    caller -> turn on its paths -> lane -> batch -> connection -> settling -> caller

Reads and writes have a lane each. `control`, the store underneath, is the third: locks, elections
and heartbeats bypass the queues of the other lanes, and at most a bounded number of batches is
ahead of them on the connection. On a path, requests are executed and answered in the order in which
they were made.
Docs: pip-453, pulsar-batching.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from broker_ctl.clock import Clock
from broker_ctl.errors import StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.backpressure import Backpressure
from broker_ctl.store.batching.batch_metrics import BatchMetrics
from broker_ctl.store.batching.entries import ReadEntry, WriteEntry
from broker_ctl.store.batching.lane import LaneDependencies
from broker_ctl.store.batching.order import PathOrder
from broker_ctl.store.batching.reads import Reads
from broker_ctl.store.batching.rules import BatchRules
from broker_ctl.store.batching.writes import Writes
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Aspect,
    BulkStore,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    Result,
    SessionEvent,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import validate
from broker_ctl.tasks import TaskScope


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
        shared = LaneDependencies(
            store=store,
            rules=rules,
            clock=clock,
            tasks=self._tasks,
            waiting=self._waiting,
            metrics=metrics,
        )
        self._reads = Reads(shared, self._leave)
        self._writes = Writes(shared, self._leave)
        self._reads.lane.neighbour = self._writes.lane
        self._writes.lane.neighbour = self._reads.lane
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
        return {"read": self._reads.lane.in_flight, "write": self._writes.lane.in_flight}

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        validate(path)
        node: Versioned | None = await self._read(path, Aspect.NODE)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore.get_many`; the reads are batched with those of other callers."""
        for path in paths:
            validate(path)
        futures: list[asyncio.Future[Any]] = []
        try:
            futures.extend(self._read(path, Aspect.NODE) for path in paths)
            if futures:
                await asyncio.wait(futures)
        except (asyncio.CancelledError, StoreError):
            # Even if only some were accepted: no caller will await their outcome.
            for future in futures:
                if not future.cancel():
                    future.exception()
            raise
        failures = [error for future in futures if (error := future.exception()) is not None]
        if failures:
            raise failures[0]
        return [future.result() for future in futures]

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore.exists`."""
        validate(path)
        stat: Stat | None = await self._read(path, Aspect.STAT)
        return stat

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        validate(path)
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
        write = self._write(tuple(operations), is_transaction=True)
        results: tuple[Result, ...] = await write
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

    def _read(self, path: str, aspect: Aspect) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        entry = ReadEntry(path, aspect, loop.create_future(), self._clock.now_s())
        self._waiting.add(entry)
        if self._order.acquire_shared(path) or self._order.enter(entry):
            self._reads.put(entry)
        return entry.future

    def _write(
        self,
        operations: tuple[Operation, ...],
        *,
        is_transaction: bool = False,
        makes_parents: bool = False,
    ) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future, made_s = loop.create_future(), self._clock.now_s()
        entry = WriteEntry(operations, future, made_s, is_transaction=is_transaction)
        entry.makes_parents = makes_parents
        self._waiting.add(entry)
        if self._order.enter(entry):
            self._writes.put(entry)
        return entry.future

    def _leave(self, entry: ReadEntry | WriteEntry) -> None:
        """Release the paths of ``entry``, and queue the entries that waited for them."""
        if isinstance(entry, ReadEntry) and self._order.release_shared(entry.path):
            return  # the usual case: no other entry waited
        leaving = [entry]
        while leaving:
            for ready in self._order.leave(leaving.pop().claims):
                if ready.future.done():
                    self._waiting.remove((ready,))  # given up while it waited for its turn
                    leaving.append(ready)
                elif isinstance(ready, ReadEntry):
                    self._reads.put(ready)
                else:
                    self._writes.put(ready)
