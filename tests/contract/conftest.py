"""Stores that have to keep the contract."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import pytest

from broker_ctl.store.interface import MetadataStore
from tests.contract.backends import Backend, BatchedBackend, MemoryBackend, ZooKeeperBackend


class OpenStore(Protocol):
    def __call__(
        self,
        session_timeout_s: float = 10.0,
        operation_timeout_s: float = 10.0,
    ) -> Awaitable[MetadataStore]: ...


@pytest.fixture(params=["memory", "zookeeper", "batched-memory", "batched-zookeeper"])
def new_backend(request: pytest.FixtureRequest) -> Backend:
    kind: str = request.param
    backend: Backend = MemoryBackend()
    if kind.endswith("zookeeper"):
        hosts: str = request.getfixturevalue("zookeeper").connect_string
        backend = ZooKeeperBackend(hosts, request.getfixturevalue("chroot"))
    return BatchedBackend(backend) if kind.startswith("batched") else backend


@pytest.fixture
async def backend(new_backend: Backend) -> AsyncIterator[Backend]:
    """Closed after the test, with all stores that it opened."""
    yield new_backend
    await new_backend.close()


@pytest.fixture
def open_store(backend: Backend) -> OpenStore:
    """Opens a connected store; all of one test share one tree."""

    async def open_one(
        session_timeout_s: float = 10.0,
        operation_timeout_s: float = 10.0,
    ) -> MetadataStore:
        return await backend.open(session_timeout_s, operation_timeout_s)

    return open_one


@pytest.fixture
async def store(open_store: OpenStore) -> MetadataStore:
    return await open_store()


@pytest.fixture
async def other(open_store: OpenStore) -> MetadataStore:
    """A second session on the tree of `store`."""
    return await open_store()


@pytest.fixture
def expire(backend: Backend) -> Callable[[MetadataStore], Awaitable[None]]:
    return backend.expire


@pytest.fixture
def cut(backend: Backend) -> Callable[[MetadataStore], None]:
    return backend.cut
