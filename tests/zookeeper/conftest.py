"""Clients on a real server, one for each that a test asks for."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Protocol

import pytest

from broker_ctl.tasks import TaskScope
from broker_ctl.zookeeper import Client, connect
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy

TICK_S = 0.5
TIMEOUT_S = 6.0


class OpenClient(Protocol):
    def __call__(self, hosts: str = "", below: str | None = None) -> Awaitable[Client]: ...


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    """What a test has others do meanwhile."""
    async with TaskScope("test") as scope:
        yield scope


@pytest.fixture
async def open_client(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[OpenClient]:
    """Starts clients below this test's own node, which are closed after it."""
    async with AsyncExitStack() as clients:

        async def open_one(hosts: str = "", below: str | None = None) -> Client:
            return await clients.enter_async_context(
                connect(
                    hosts or zookeeper.connect_string,
                    chroot=chroot if below is None else below,
                    session_timeout_s=TIMEOUT_S,
                    request_timeout_s=TIMEOUT_S,
                    tick_time_s=TICK_S,
                )
            )

        yield open_one


@pytest.fixture
async def client(open_client: OpenClient) -> Client:
    return await open_client()


@pytest.fixture
async def proxy(zookeeper: SharedEnsemble) -> AsyncIterator[Proxy]:
    """In front of `zookeeper`."""
    async with Proxy.to(zookeeper.servers[0].client_port) as proxy:
        yield proxy
