"""A server, and a client that is connected to it."""

from collections.abc import AsyncIterator

import pytest

from tests.api.binary.serving import Served, serving
from tests.support.http.binary_client import BinaryClient


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
async def client(served: Served) -> AsyncIterator[BinaryClient]:
    async with BinaryClient.connected(served.port) as client:
        yield client
