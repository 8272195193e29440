"""Base of the decorators of a store, and the setting of watches with retries."""

import random
from collections.abc import Callable, Sequence
from functools import partial

from broker_ctl.retry import retry
from broker_ctl.store.interface import (
    ANY_VERSION,
    CreateMode,
    MetadataStore,
    NotificationListener,
    Operation,
    Result,
    SessionListener,
    StallWrite,
    Stat,
    Versioned,
)

# Base of the decorators of a store: it forwards every call to the inner store.


class ForwardingStore:
    """`MetadataStore` that forwards every call to an inner store; a decorator overrides some."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """See `MetadataStore`."""
        return self._inner.name

    @property
    def session_id(self) -> int:
        """See `MetadataStore`."""
        return self._inner.session_id

    @property
    def session_timeout_s(self) -> float:
        """See `MetadataStore`."""
        return self._inner.session_timeout_s

    @property
    def handshake_s(self) -> float:
        """See `MetadataStore`."""
        return self._inner.handshake_s

    @property
    def last_zxid(self) -> int:
        """See `MetadataStore`."""
        return self._inner.last_zxid

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore`."""
        return await self._inner.get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore`."""
        return await self._inner.get_many(paths)

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore`."""
        return await self._inner.exists(path)

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore`."""
        return await self._inner.children(path)

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
        return await self._inner.create(path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        return await self._inner.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore`."""
        await self._inner.delete(path, version)

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`."""
        return await self._inner.multi(operations)

    async def sync(self, path: str) -> None:
        """See `MetadataStore`."""
        await self._inner.sync(path)

    async def ephemerals(self, prefix: str) -> list[str]:
        """See `MetadataStore`."""
        return await self._inner.ephemerals(prefix)

    async def watch(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """See `MetadataStore`."""
        return await self._inner.watch(root, listener)

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """See `MetadataStore`."""
        return self._inner.listen(listener)

    def repeat_in_stalls(self, write: StallWrite | None) -> None:
        """See `MetadataStore`."""
        self._inner.repeat_in_stalls(write)

    async def wait_connected(self) -> None:
        """See `MetadataStore`."""
        await self._inner.wait_connected()

    async def close(self, *, end_session: bool = True) -> None:
        """See `MetadataStore`."""
        await self._inner.close(end_session=end_session)


# Sets a watch, and retries until it is set.
#
# A component sets its watch once, when it starts: a single timeout of a slow or absent server must
# not end the daemon. The store itself bounds how long it goes without a server
# (`zookeeperSessionReconnectMaxRetries`); after that it closes, and no attempt can succeed.


async def set_watch(
    store: MetadataStore, root: str, listener: NotificationListener, *, rng: random.Random
) -> Callable[[], None]:
    """As `MetadataStore.watch`, repeated while a retry can help.

    Raises:
        StoreError: one that stays: the store is closed, or refuses.
    """
    return await retry(partial(store.watch, root, listener), f"cannot watch {root}", rng=rng)
