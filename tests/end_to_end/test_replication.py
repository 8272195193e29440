"""Replicated partitions on real daemons: brokers are instructed, records outlive leaders."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.partitions.values import Assignment, TopicAssignment, TopicPartition
from broker_ctl.errors import DataPlaneError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.tcp import TcpNetwork
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import encode_topic
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TIMEOUT_MS = 4000
TOPIC_ID = f"{7:032x}"
PARTITION = TopicPartition("orders", 0)
FIRST, SECOND, THIRD = b"first", b"second", b"third"


@asynccontextmanager
async def replicating(
    zookeeper: SharedEnsemble, chroot: str, directory: Path, http: HttpClient, **settings: str
) -> AsyncIterator[ReplicatedDaemons]:
    """Three brokers, and a topic with a replica on each; broker 1 is preferred."""
    all_settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "metadataStoreSessionTimeoutMillis": str(TIMEOUT_MS),
        "replicaPollMillis": "100",
        "autoLeaderRebalanceEnabled": "false",
        "controlledShutdownRetryBackoffMs": "200",
        **settings,
    }
    async with ReplicatedDaemons(directory / "daemons", 3, all_settings, http) as daemons:
        client = KazooClient(hosts=zookeeper.connect_string + chroot)
        await asyncio.to_thread(client.start)
        try:
            await eventually(lambda: knows(client, 3), what="three brokers")
            topic = TopicAssignment(TOPIC_ID, {0: Assignment((1, 2, 3))})
            path = paths.topic(PARTITION.topic)
            await asyncio.to_thread(client.create, path, encode_topic(topic), makepath=True)
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)
        await daemons.wait_led(PARTITION, 1, (1, 2, 3))
        yield daemons


async def knows(client: KazooClient, count: int) -> bool:
    if not await asyncio.to_thread(client.exists, paths.BROKER_IDS):
        return False
    ids = await asyncio.to_thread(client.get_children, paths.BROKER_IDS)
    return len(ids) == count


class Clients:
    """Of each broker process, by number."""

    def __init__(self, daemons: ReplicatedDaemons) -> None:
        self._daemons = daemons

    async def produce(self, broker: int, value: bytes) -> int:
        """Until it is acknowledged by all in sync; the offset that it got."""

        async def offset() -> tuple[int] | None:
            async with self._client(broker) as client:
                try:
                    return ((await client.produce(PARTITION, [value])).offset,)
                except DataPlaneError:
                    return None

        return (await eventually(offset, what=f"{broker} takes {value!r}"))[0]

    async def committed(self, broker: int) -> list[bytes]:
        async with self._client(broker) as client:
            try:
                return [record.value for record in (await client.consume(PARTITION)).records]
            except DataPlaneError:
                return []

    async def log(self, broker: int) -> list[bytes]:
        """Committed or not."""
        async with self._client(broker) as client:
            try:
                return [record.value for record in await client.log(PARTITION)]
            except DataPlaneError:
                return []

    def _client(self, broker: int) -> ReplicaClient:
        return ReplicaClient(TcpNetwork(), self._daemons.address(broker))


@pytest.mark.parametrize("transport", ["http", pytest.param("zkqueue", marks=pytest.mark.slow)])
async def test_another_leads_when_the_leader_dies_and_no_record_is_lost(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, http: HttpClient, transport: str
) -> None:
    async with replicating(
        zookeeper, chroot, tmp_path, http, stateChangeTransport=transport
    ) as daemons:
        clients = Clients(daemons)
        assert await clients.produce(1, FIRST) == 0
        await daemons.by_id[1].kill()
        state = await daemons.wait_led(PARTITION, 2, (2, 3), at=3)
        assert state["leader_epoch"] > 0

        async def is_kept() -> bool:
            return await clients.committed(2) == [FIRST]

        await eventually(is_kept)
        assert await clients.produce(2, SECOND) == 1
        # The dead one comes back as a follower, as it is instructed.
        await daemons.by_id[1].start()
        await daemons.by_id[1].wait_ready(http)
        await daemons.wait_led(PARTITION, 2, (1, 2, 3), at=3)
        assert await clients.log(1) == [FIRST, SECOND]


async def test_a_broker_that_stops_hands_its_leaderships_over_while_it_still_serves(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, http: HttpClient
) -> None:
    async with replicating(zookeeper, chroot, tmp_path, http) as daemons:
        clients = Clients(daemons)
        await clients.produce(1, FIRST)
        await daemons.by_id[1].stop()
        log = daemons.by_id[1].files.log.read_text(encoding="utf-8")
        assert "controlled shutdown: this broker leads no partition any more" in log
        # Without that, its registration would have to go first.
        state: Any = await daemons.led(PARTITION, at=3)
        assert (state["leader"], sorted(state["isr"])) == (2, [2, 3])
        assert await clients.produce(2, THIRD) == 1
