"""Strangers at the replication port neither read nor write, and followers have one number."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker_ctl import codec
from broker_ctl.cli.main import main
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication import server
from broker_ctl.lab.replication.tcp import Channel, ChannelClosed, ReplicationTls, TcpNetwork
from broker_ctl.security.certificates.peer_certificate import replica_broker_uri
from tests.support.replicas.replica_planes import ORDERS, TOPIC_ID, Planes, instruction, state
from tests.support.security.authority import Authority
from tests.support.time.waiting import PATIENCE_S

CLUSTER = "prod"
SETTINGS = ("metadataStoreUrl=zk:127.0.0.1:2181", "brokerId=1", "allowInsecureListener=true")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authorities") / "own")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authorities") / "foreign")


def tls_of(authority: Authority, number: int, cluster: str = CLUSTER) -> ReplicationTls:
    return authority.issue(f"{cluster}-{number}", replica_broker_uri(cluster, number)).tls(CLUSTER)


@asynccontextmanager
async def connected(address: str, tls: ReplicationTls | None) -> AsyncIterator[Channel]:
    channel = await TcpNetwork(tls).connect(address)
    try:
        yield channel
    finally:
        channel.close()


def follow(follower: int, *partitions: TopicPartition, end_offset: int = 0) -> bytes:
    named: list[list[Any]] = [[*one, 0, end_offset, 0] for one in partitions]
    topics = {one.topic: TOPIC_ID for one in partitions}
    return codec.encode(
        {"api": "follow", "follower": follower, "topics": topics, "named": named, "forgotten": []}
    )


async def received_for_ever(channel: Channel) -> None:
    while True:
        await channel.receive()


async def is_fed(address: str, tls: ReplicationTls | None, follower: int) -> bool:
    """Whether a client that follows under a number gets a frame, or is closed."""
    try:
        async with asyncio.timeout(PATIENCE_S), connected(address, tls) as channel:
            await channel.send(follow(follower, ORDERS))
            await channel.receive()
    except ChannelClosed:
        return False
    return True


async def test_records_are_committed_between_brokers_with_certificates(
    authority: Authority,
) -> None:
    async with Planes(tls=lambda number: tls_of(authority, number)) as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2, 3))))
        assert await planes.client(1).produce(ORDERS, [b"a"]) == (0, 0)
        await planes.wait_log(3, [b"a"])


async def test_strangers_neither_read_nor_write(authority: Authority, foreign: Authority) -> None:
    async with Planes(1, tls=lambda number: tls_of(authority, number)) as planes:
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1,)))
        for stranger in (None, tls_of(foreign, 1)):
            client = ReplicaClient(TcpNetwork(stranger), planes.addresses[1], timeout_s=PATIENCE_S)
            async with client:
                with pytest.raises(DataPlaneUnreachable):
                    await client.produce(ORDERS, [b"injected"], is_for_all=False)
        assert await planes.client(1).log(ORDERS) == []


@pytest.mark.parametrize(
    ("number", "cluster", "follower", "welcome"),
    [(2, CLUSTER, 2, True), (3, CLUSTER, 2, False), (2, "other", 2, False)],
)
async def test_a_follower_has_only_the_number_of_its_certificate(
    authority: Authority, number: int, cluster: str, follower: int, welcome: bool
) -> None:
    """Otherwise a stranger acknowledges records for a follower that has none of them."""
    async with Planes(1, tls=lambda number: tls_of(authority, number)) as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2)), replicas=(1, 2)))
        stranger = tls_of(authority, number, cluster)
        assert await is_fed(planes.addresses[1], stranger, follower) is welcome


async def test_a_follower_fetches_from_no_other_broker_than_its_leader(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Its leader's address in ZooKeeper may have been replaced."""
    async with Planes(2, tls=lambda number: tls_of(authority, 3 - number)) as planes:
        with caplog.at_level(logging.WARNING):
            await planes.instruct(instruction(state(1, 0, (1, 2)), replicas=(1, 2)))

            async def is_refused() -> bool:
                return "is not that of broker 1" in caplog.text

            assert await planes.within(is_refused, "a refusal")


async def test_a_follower_cannot_fill_the_memory_with_partitions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_MAX_EARLY_PLACES", 5)
    async with Planes(1) as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2)), replicas=(1, 2)))
        address = planes.addresses[1]
        early = [TopicPartition("early", number) for number in range(6)]
        async with asyncio.timeout(PATIENCE_S), connected(address, None) as channel:
            await channel.send(follow(2, ORDERS, *early[:5]))
            await channel.receive()
            await channel.send(follow(2, early[5]))
            with pytest.raises(ChannelClosed):
                await received_for_ever(channel)
    # A silent follower is closed too.
    assert "more than 5 partitions without a replica here" in caplog.text


async def test_a_silent_connection_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_FIRST_MESSAGE_S", 0.01)
    async with (
        Planes(1) as planes,
        asyncio.timeout(PATIENCE_S),
        connected(planes.addresses[1], None) as silent,
    ):
        with pytest.raises(ChannelClosed):
            await silent.receive()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("bindAddress=0.0.0.0",), "anybody could read and write the replicas"),
        (("simulatedReplicationTlsEnabled=true",), "brokers prove their numbers with certificates"),
        (("bindAddress=127.0.0.1",), ""),
    ],
)
def test_an_open_replication_port_off_loopback_ends_the_start(
    settings: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("\n".join((*SETTINGS, *settings)) + "\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["config", "check", str(file)])
    assert result.exit_code == (1 if says else 0), result.output
    assert says in result.output


def test_certificates_of_brokers_allow_the_port_off_loopback(
    authority: Authority, tmp_path: Path
) -> None:
    files = authority.issue("off-loopback", replica_broker_uri(CLUSTER, 1)).settings
    file = tmp_path / "broker.conf"
    texts = (*SETTINGS, *files, "bindAddress=0.0.0.0", "simulatedReplicationTlsEnabled=true")
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["config", "check", str(file)])
    assert result.exit_code == 0, result.output
