"""Views of a store: timed, repeated over an expiry of the session, closed for writes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import ConnectionLoss, SessionExpired
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Answer,
    BulkStore,
    Create,
    CreateMode,
    MetadataStore,
    Operation,
    Outcome,
    Read,
    Result,
    SetData,
    Stat,
    Versioned,
)

log = logging.getLogger(__name__)

# A store whose operations are timed, for Pulsar's metrics (docs: pulsar-store-metrics).


T = TypeVar("T")


class InstrumentedStore(ForwardingStore):
    """Times get, put and del, as Pulsar does, and nothing else."""

    def __init__(self, store: MetadataStore, instruments: StoreInstruments, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._put_bytes = instruments.put_bytes
        self._latency_ms = {
            (kind, status): instruments.latency_ms.labelled(store.name, kind, status)
            for kind in ("get", "put", "del")
            for status in ("success", "fail")
        }

    async def _timed(self, kind: str, work: Coroutine[Any, Any, T]) -> T:
        began_s, status = self._clock.now_s(), "fail"
        try:
            answer = await work
            status = "success"
            return answer
        finally:
            took_ms = (self._clock.now_s() - began_s) * 1000
            self._latency_ms[kind, status].observe(took_ms)

    def _written(self, size_bytes: int) -> None:
        self._put_bytes.add(self.name, amount=size_bytes)

    async def get(self, path: str) -> Versioned | None:
        """Timed as ``get``."""
        return await self._timed("get", self._inner.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """Timed as one ``get``."""
        return await self._timed("get", self._inner.get_many(paths))

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """Timed as ``put``."""
        work = self._inner.create(path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents)
        created = await self._timed("put", work)
        self._written(len(data))
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Timed as ``put``."""
        stat = await self._timed("put", self._inner.set(path, data, version))
        self._written(len(data))
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Timed as ``del``."""
        await self._timed("del", self._inner.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Timed as one ``put``."""
        results = await self._timed("put", self._inner.multi(operations))
        for operation in operations:
            if isinstance(operation, Create | SetData):
                self._written(len(operation.data))
        return results


# A view of a store that retries writes over a session expiry.
#
# The session fails a write that waits when it expires, since most writes depend on ephemeral
# nodes of that session. Writes of policies, namespaces, settings and operators' directives do
# not: this store sends them again in the next session. It retries only a write that was certainly
# not applied (I4), which `SessionExpired` says; a lost reply that reading cannot resolve stays
# `Ambiguous`.


# Each attempt has the deadline of an operation: the bound keeps a caller from waiting for ever
# while one session after the other expires.
_ATTEMPTS: Final = 3


class RetryingStore(ForwardingStore):
    """Retries writes after an expiry; refuses to create ephemeral nodes."""

    async def _write(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await write()
            except SessionExpired as error:
                log.info("%s was not applied: %s; retrying in the next session", what, error)
        return await write()

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore`.

        Raises:
            ValueError: an ephemeral node, which is its session's.
        """
        _require_unowned(path, mode)
        return await self._write(
            f"create {path}",
            lambda: self._inner.create(path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents),
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        return await self._write(f"set {path}", lambda: self._inner.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore`."""
        await self._write(f"delete {path}", lambda: self._inner.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`.

        Raises:
            ValueError: an ephemeral node, which is its session's.
        """
        for operation in operations:
            if isinstance(operation, Create):
                _require_unowned(operation.path, operation.mode)
        what = f"transaction of {len(operations)}"
        return await self._write(what, lambda: self._inner.multi(operations))


def _require_unowned(path: str, mode: CreateMode) -> None:
    if mode.is_ephemeral:
        raise ValueError(f"{path}: an ephemeral node does not outlast its session")


# A store that can be closed for writes, while reads and watches go on.


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
