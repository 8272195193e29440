"""The store that signs what it writes, and verifies what it reads.

It is the innermost decorator: caches, batches and readers above see payloads without signatures.
"""

from collections.abc import Sequence
from typing import TypeVar

from broker_ctl.errors import SessionExpired
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Answer,
    BulkStore,
    Create,
    CreateMode,
    Operation,
    Outcome,
    Read,
    Result,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.signed.families import family_of
from broker_ctl.store.signed.signatures import ZnodeSignatures

T = TypeVar("T")


class SignedStore(ForwardingStore):
    """`BulkStore` over another; paths of no family pass unchanged."""

    def __init__(self, store: BulkStore, signatures: ZnodeSignatures) -> None:
        super().__init__(store)
        self._bulk = store
        self._signatures = signatures

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore`."""
        return self._opened(await self._bulk.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore`."""
        return [self._opened(node) for node in await self._bulk.get_many(paths)]

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore`."""
        answers = await self._bulk.read_many(reads, deadline_s)
        opened = self._signatures.open
        return [opened(found) if type(found) is Versioned else found for found in answers]

    def _opened(self, node: Versioned | None) -> Versioned | None:
        return None if node is None else self._signatures.open(node)

    # Writes. A write that waits fails with its session, so the session that signs is the one that
    # will own an ephemeral node.

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
        sealed = self._sealed_data(path, data)
        created = await self._bulk.create(
            path, sealed, mode, ttl_ms=ttl_ms, make_parents=make_parents
        )
        return created._replace(data=data)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        sealed = self._sealed_data(path, data)
        return await self._bulk.set(path, sealed, version)

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`."""
        results = await self._bulk.multi(self._sealed(operations))
        return tuple(map(_restored, operations, results))

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore`."""
        outcomes = await self._bulk.write_many(self._sealed(operations), deadline_s)
        return tuple(map(_restored, operations, outcomes))

    def _sealed_data(self, path: str, data: bytes) -> bytes:
        family = family_of(path)
        if family is None:
            return data
        if family.is_ephemeral and not self.session_id:
            # Its session is not known yet, which the signature has to name.
            raise SessionExpired(f"{path}: no session owns it: nothing was written")
        return self._signatures.seal(path, data, self.session_id)

    def _sealed(self, operations: Sequence[Operation]) -> list[Operation]:
        return [self._seal(operation) for operation in operations]

    def _seal(self, operation: Operation) -> Operation:
        if not isinstance(operation, Create | SetData):
            return operation
        sealed = self._sealed_data(operation.path, operation.data)
        if sealed is operation.data:
            return operation
        if isinstance(operation, Create):
            return Create(operation.path, sealed, operation.mode, operation.ttl_ms)
        return SetData(operation.path, sealed, operation.version)


def _restored(operation: Operation, outcome: T) -> T | Versioned:
    """The outcome, with the data that the caller wrote."""
    if isinstance(operation, Create) and isinstance(outcome, Versioned):
        return outcome._replace(data=operation.data)
    return outcome
