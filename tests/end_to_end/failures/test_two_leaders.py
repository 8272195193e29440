"""Two leaders in transition (docs: kafka-design-v3), with processes that are really stopped."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import DataPlaneError, DataPlaneRefused
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.tcp import TcpNetwork
from broker_ctl.store import paths
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.session_faults import expire_session, password_of

PARTITION = TopicPartition("t", 0)
# Longer than the pause: who waits for a stopped leader still waits when it goes on.
PATIENT_S = 30.0


@pytest.fixture
async def three(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, http: HttpClient
) -> AsyncIterator[ReplicatedDaemons]:
    url = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    async with ReplicatedDaemons(tmp_path, 3, {**SETTINGS, **url}, http) as daemons:
        yield daemons


@pytest.fixture
async def store(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    opened = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await opened.start()
    await opened.wait_connected()
    yield opened
    await opened.close()


async def values(three: ReplicatedDaemons, broker: int) -> list[bytes]:
    async with ReplicaClient(TcpNetwork(), three.address(broker)) as client:
        return [value for _, value in await client.log(PARTITION)]


async def test_a_leader_that_was_stopped_commits_nothing_once_another_one_leads(
    three: ReplicatedDaemons, store: ZooKeeperStore, zookeeper: SharedEnsemble
) -> None:
    """Its session is ended by force, so that its lease has not run out when it wakes."""
    await three.create("t", [1, 2, 3], min_isr=2)
    await three.wait_led(PARTITION, 1, [1, 2, 3])
    paused = three.by_id[1]
    async with (
        ReplicaClient(TcpNetwork(), three.address(1), timeout_s=PATIENT_S) as old,
        ReplicaClient(TcpNetwork(), three.address(2)) as new,
    ):
        await old.produce(PARTITION, [b"1"])
        stat = await store.exists(paths.broker(1))
        assert stat is not None
        paused.signal(signal.SIGSTOP)
        try:
            # It lies before the stopped process, which reads it first of all when it goes on.
            async with asyncio.TaskGroup() as group:
                late = group.create_task(refused(old, b"late"), name="late")
                session = stat.ephemeral_owner
                await expire_session(zookeeper.connect_string, session, password_of(session))
                await three.wait_led(PARTITION, 2, [2, 3], at=2)
                await eventually(lambda: produced(new, b"2"), what="the new leader commits")
                paused.signal(signal.SIGCONT)
                assert await late
        finally:
            paused.signal(signal.SIGCONT)
    await three.wait_led(PARTITION, 2, [1, 2, 3], at=2)

    async def are_alike() -> bool:
        return [await values(three, broker) for broker in (1, 2, 3)] == [[b"1", b"2"]] * 3

    await eventually(are_alike, what="three logs with what was acknowledged, and nothing else")


async def produced(client: ReplicaClient, value: bytes) -> bool:
    """Refused until the broker has heard that it leads."""
    try:
        await client.produce(PARTITION, [value])
    except DataPlaneRefused:
        return False
    return True


async def refused(client: ReplicaClient, value: bytes) -> bool:
    try:
        await client.produce(PARTITION, [value])
    except DataPlaneError:
        return True
    return False
