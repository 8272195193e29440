"""A store whose operations are timed, for Pulsar's metrics (docs: pulsar-store-metrics)."""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Create,
    CreateMode,
    MetadataStore,
    Operation,
    Result,
    SetData,
    Stat,
    Versioned,
)

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
