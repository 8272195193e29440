"""The stores that must keep the contract, and how each of them gets into trouble."""

from contextlib import AsyncExitStack
from typing import Protocol

from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import MetadataStore, Notification, SessionEvent
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.zookeeper.session_faults import expire_session


class Backend(Protocol):
    """Opens stores that share one tree."""

    async def open(self, session_timeout_s: float, operation_timeout_s: float) -> MetadataStore: ...

    async def close(self) -> None: ...

    async def expire(self, store: MetadataStore) -> None:
        """End the session of a store as the server would."""
        ...

    def cut(self, store: MetadataStore) -> None:
        """End the connection of a store; another may come about at once."""
        ...


class MemoryBackend:
    def __init__(self) -> None:
        self._ensemble = MemoryEnsemble()
        self._stores = AsyncExitStack()

    async def open(self, session_timeout_s: float, operation_timeout_s: float) -> MetadataStore:
        store = MemoryStore(
            self._ensemble,
            session_timeout_s=session_timeout_s,
            operation_timeout_s=operation_timeout_s,
        )
        self._stores.push_async_callback(store.close)
        await store.start()
        await store.wait_connected()
        return store

    async def close(self) -> None:
        await self._stores.aclose()

    async def expire(self, store: MetadataStore) -> None:
        self._ensemble.expire(store.session_id)

    def cut(self, store: MetadataStore) -> None:
        assert isinstance(store, MemoryStore)
        store.disconnect()
        store.reconnect()


class ZooKeeperBackend:
    def __init__(self, hosts: str, chroot: str) -> None:
        self._hosts = hosts
        self._chroot = chroot
        self._stores = AsyncExitStack()

    async def open(self, session_timeout_s: float, operation_timeout_s: float) -> MetadataStore:
        store = ZooKeeperStore(
            StoreOptions(
                hosts=self._hosts,
                chroot=self._chroot,
                session_timeout_s=session_timeout_s,
                operation_timeout_s=operation_timeout_s,
            ),
        )
        self._stores.push_async_callback(store.close)
        await store.start()
        await store.wait_connected()
        return store

    async def close(self) -> None:
        await self._stores.aclose()

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await expire_session(self._hosts, store.session_id, store.saved_session.password)

    def cut(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        store.abort_connection()


class BatchedBackend:
    """The stores of another backend, each behind lanes and batches."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._stores: dict[MetadataStore, MetadataStore] = {}

    async def open(self, session_timeout_s: float, operation_timeout_s: float) -> MetadataStore:
        store = await self._inner.open(session_timeout_s, operation_timeout_s)
        assert isinstance(store, MemoryStore | ZooKeeperStore)
        batched = BatchedStore(
            store, BatchRules(operation_timeout_s=operation_timeout_s), LoopClock()
        )
        self._stores[batched] = store
        return batched

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        await self._inner.close()

    async def expire(self, store: MetadataStore) -> None:
        await self._inner.expire(self._stores[store])

    def cut(self, store: MetadataStore) -> None:
        self._inner.cut(self._stores[store])


class Heard:
    """What a store notified its listeners of, in order."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.events: list[SessionEvent] = []

    def paths(self) -> list[tuple[str, str]]:
        return [(heard.change.name, heard.path) for heard in self.notifications]
