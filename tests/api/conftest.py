"""Brokers with an API server each, and a client."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as client:
        yield client


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Broker, Broker]]:
    """The leader, and a follower."""
    async with serving_brokers([free_port(), free_port()]) as (leader, follower):
        yield leader, follower


@pytest.fixture
def leader(pair: tuple[Broker, Broker]) -> Broker:
    return pair[0]


@pytest.fixture
def follower(pair: tuple[Broker, Broker]) -> Broker:
    return pair[1]
