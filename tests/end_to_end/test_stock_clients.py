"""The client that everybody uses is sent to the broker that owns its topic, over both protocols."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from urllib.parse import quote

import pulsar
import pulsar.asyncio
import pytest

from broker_ctl.core.model.names import Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import NAMESPACE, look_up, make_namespace
from tests.support.http.broker_listener import BrokerListener
from tests.support.http.odd_names import odd_names

NAMES = 1000
AT_ONCE = 50
SCHEMES = ("http", "pulsar")


class Party:
    """Daemons, and a listener behind the service address of each of their brokers."""

    def __init__(self, daemons: Daemons) -> None:
        self.daemons = daemons
        self.listeners = {daemon.broker_id: BrokerListener() for daemon in daemons.all}

    def url(self, scheme: str) -> str:
        first = self.daemons.all[0]
        return first.url if scheme == "http" else first.lookup_url

    def came(self) -> Mapping[str, set[str]]:
        return {broker_id: one.topics for broker_id, one in self.listeners.items()}


@pytest.fixture
async def party(new_cluster: NewCluster, http: HttpClient) -> AsyncIterator[Party]:
    async with AsyncExitStack() as stack:
        daemons = await stack.enter_async_context(new_cluster(3, loadBalancerEnabled="false"))
        found = Party(daemons)
        for daemon in daemons.all:
            listening = found.listeners[daemon.broker_id].at(daemon.service_port)
            await stack.enter_async_context(listening)
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0], bundles=16)
        yield found


def client(url: str) -> pulsar.asyncio.Client:
    # Each refused producer is an error in its log.
    quiet = logging.getLogger("pulsar-client")
    quiet.setLevel(logging.CRITICAL)
    return pulsar.asyncio.Client(url, operation_timeout_seconds=20, logger=quiet)


async def send_for_all(url: str, topics: Sequence[str]) -> None:
    """Let a client open a producer on each, which no listener lets it have."""
    opened = client(url)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(topic: str) -> None:
        async with room:
            with pytest.raises(pulsar.asyncio.PulsarException) as refused:
                await opened.create_producer(topic)
            assert refused.value.error() == pulsar.Result.NotAllowedError, topic

    try:
        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(one(topic))
    finally:
        await opened.close()


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.slow), "pulsar"])
async def test_a_thousand_names_of_every_kind_are_found_where_they_are_owned(
    party: Party, http: HttpClient, scheme: str
) -> None:
    topics = odd_names(random.Random(scheme), NAMESPACE, NAMES)
    await send_for_all(party.url(scheme), topics)
    came = party.came()
    assert set().union(*came.values()) == set(topics)
    assert sum(len(ones) for ones in came.values()) == len(topics)
    assert all(came.values()), "each broker owns some"
    asked: DaemonProcess = party.daemons.all[1]
    for broker_id, ones in came.items():
        for topic in sorted(ones)[:20]:
            name = Topic.parse(topic)
            in_url = Topic.of(name.domain, name.namespace, quote(name.local, safe=""))
            answer = await look_up(http, asked, in_url)
            assert answer["brokerId"] == broker_id, topic


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_each_partition_is_found_by_itself(
    party: Party, http: HttpClient, scheme: str
) -> None:
    topic = f"persistent://{NAMESPACE}/parted {scheme}"
    path = f"persistent/{NAMESPACE}/{quote(f'parted {scheme}')}"
    url = f"{party.daemons.all[2].url}/admin/v2/{path}/partitions"
    assert (await http.request("PUT", url, json=12)).status == 204
    opened = client(party.url(scheme))
    try:
        partitions = await opened.get_topic_partitions(topic)
        assert partitions == [f"{topic}-partition-{number}" for number in range(12)]
        with pytest.raises(pulsar.asyncio.PulsarException):
            await opened.create_producer(topic)
    finally:
        await opened.close()
    await send_for_all(party.url(scheme), partitions)
    assert set().union(*party.came().values()) >= set(partitions)
