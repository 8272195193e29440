"""A store that can be closed for writes, while reads and watches go on."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from broker_ctl.errors import ConnectionLoss
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Answer,
    BulkStore,
    CreateMode,
    Operation,
    Outcome,
    Read,
    Result,
    Stat,
    Versioned,
)

T = TypeVar("T")


class WriteGate(ForwardingStore):
    """`BulkStore` over another; a write that comes while it is closed was not executed.

    Attributes:
        why_closed: the reason, for the error of a write; empty: it is open.
    """

    def __init__(self, store: BulkStore) -> None:
        super().__init__(store)
        self._bulk = store
        self._writes = 0
        self._has_no_writes = asyncio.Event()
        self._has_no_writes.set()
        self.why_closed = ""

    async def wait_drained(self) -> None:
        """Return once no write is under way."""
        await self._has_no_writes.wait()

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore`."""
        return await self._bulk.read_many(reads, deadline_s)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore`."""
        self._check(path)
        return await self._counted(
            self._bulk.create(path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents)
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        self._check(path)
        return await self._counted(self._bulk.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore`."""
        self._check(path)
        await self._counted(self._bulk.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`."""
        self._check(f"transaction of {len(operations)}")
        return await self._counted(self._bulk.multi(operations))

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore`."""
        self._check(f"{len(operations)} writes")
        return await self._counted(self._bulk.write_many(operations, deadline_s))

    def _check(self, what: str) -> None:
        if self.why_closed:
            raise ConnectionLoss(f"{what}: not written: {self.why_closed}")

    async def _counted(self, write: Awaitable[T]) -> T:
        self._writes += 1
        self._has_no_writes.clear()
        try:
            return await write
        finally:
            self._writes -= 1
            if not self._writes:
                self._has_no_writes.set()
