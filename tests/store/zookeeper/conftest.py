"""Stores on a real server, on a fake one, and behind a proxy."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Protocol

import pytest

from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy

TIMEOUT_S = 5.0


class OpenStore(Protocol):
    def __call__(
        self,
        hosts: str,
        options: StoreOptions = ...,
        *,
        connected: bool = ...,
    ) -> Awaitable[ZooKeeperStore]: ...


DEFAULTS = StoreOptions("", session_timeout_s=TIMEOUT_S, operation_timeout_s=TIMEOUT_S)


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """Opens stores, which are closed after the test."""
    async with AsyncExitStack() as stores:

        async def open_one(
            hosts: str,
            options: StoreOptions = DEFAULTS,
            *,
            connected: bool = True,
        ) -> ZooKeeperStore:
            store = ZooKeeperStore(replace(options, hosts=hosts))
            stores.push_async_callback(store.close)
            await store.start()
            if connected:
                await store.wait_connected()
            return store

        yield open_one


@pytest.fixture
def rooted(chroot: str) -> StoreOptions:
    """Options of stores on `zookeeper`, below this test's own node."""
    return replace(DEFAULTS, chroot=chroot)


@pytest.fixture
async def proxy(zookeeper: SharedEnsemble) -> AsyncIterator[Proxy]:
    """In front of `zookeeper`."""
    async with Proxy.to(zookeeper.servers[0].client_port) as proxy:
        yield proxy


@pytest.fixture
async def store(open_store: OpenStore, proxy: Proxy, rooted: StoreOptions) -> ZooKeeperStore:
    """Reaches `zookeeper` through `proxy`."""
    return await open_store(proxy.address, rooted)


@pytest.fixture
async def observer(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
) -> ZooKeeperStore:
    """A session of its own on the same tree, without the proxy."""
    return await open_store(zookeeper.connect_string, rooted)
