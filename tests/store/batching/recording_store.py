"""A memory store that records its requests, behind lanes and batches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import Answer, Create, Operation, Outcome, Read, Result, Versioned


class RecordingEnsemble(MemoryEnsemble):
    """Records what was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[tuple[Operation, ...]] = []

    def write(self, session_id: int, operations: Sequence[Operation]) -> tuple[Result, ...]:
        results = super().write(session_id, operations)
        self.committed.append(tuple(operations))
        return results


class RecordingStore(MemoryStore):
    """Records every batch, also those that were refused or got lost, and what was read alone."""

    def __init__(
        self, ensemble: MemoryEnsemble, transit: Callable[[], Awaitable[None]], timeout_s: float
    ) -> None:
        super().__init__(
            ensemble, session_timeout_s=3600.0, operation_timeout_s=timeout_s, transit=transit
        )
        self.writes: list[tuple[Operation, ...]] = []
        self.reads: list[tuple[str, ...]] = []
        self.alone: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def get(self, path: str) -> Versioned | None:
        self.alone.append(path)
        return await super().get(path)

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        self.reads.append(tuple(read.path for read in reads))
        return await super().read_many(reads, deadline_s)

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        self.writes.append(tuple(operations))
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            return await super().write_many(operations, deadline_s)
        finally:
            self.in_flight -= 1


@dataclass
class Bench:
    """One batched store, what is under it, and the network between it and the ensemble.

    Attributes:
        transit: what each message waits for on its way; replace it at will.
    """

    ensemble: RecordingEnsemble
    under: RecordingStore
    store: BatchedStore
    transit: Callable[[], Awaitable[None]] = field(repr=False)

    async def is_left_idle(self) -> bool:
        """Whether in the end no claim, no waiting request and no batch is left (virtual time)."""
        await asyncio.sleep(1.0)
        store = self.store
        lanes = [one.lane for each in store._lanes for one in (each.reads, each.writes)]
        return not (len(store._order) or store.waiting or any(len(lane) for lane in lanes)) and (
            store.in_flight == {"read": 0, "write": 0}
        )

    def created(self) -> list[tuple[str, bytes]]:
        """Nodes in the order in which they were committed."""
        return [
            (operation.path, operation.data)
            for operations in self.ensemble.committed
            for operation in operations
            if isinstance(operation, Create)
        ]


async def _at_once() -> None:
    return


@asynccontextmanager
async def bench(rules: BatchRules | None = None) -> AsyncIterator[Bench]:
    """A connected store, which is closed in the end."""
    rules = rules or BatchRules()
    ensemble = RecordingEnsemble()

    async def transit() -> None:
        await built.transit()

    under = RecordingStore(ensemble, transit, rules.operation_timeout_s)
    built = Bench(ensemble, under, BatchedStore(under, rules, LoopClock()), _at_once)
    await under.start()
    await under.wait_connected()
    try:
        yield built
    finally:
        await built.store.close()
