"""Lookups while ZooKeeper is away: the owner answers under its lease, all others say so at once."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker_ctl.broker.lookup.lookup import Connect, PeerCluster, Redirect
from broker_ctl.codec import encode
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import AuthorityLost, BundleMoving
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from tests.broker.lookup.test_lookup import Door, doors, topic_in
from tests.support.clusters.brokers import NAMESPACE, MemoryBroker, cluster
from tests.support.time.waiting import eventually

# What a client notices.
_AT_ONCE_S = 0.1
_NEVER_S = 1e6


async def _timed(door: Door, topic: Topic) -> tuple[Connect | Redirect | PeerCluster | str, float]:
    """The answer, or the name of the error, and how long it took."""
    began_s = door.broker.clock.now_s()
    try:
        answer: Connect | Redirect | PeerCluster | str = await door.lookup.find(topic)
    except (AuthorityLost, BundleMoving) as error:
        answer = type(error).__name__
    return answer, door.broker.clock.now_s() - began_s


@contextmanager
def _muted(broker: MemoryBroker) -> Iterator[None]:
    """The connection stands, and nothing is answered: a server that was paused."""
    before_s, broker.steering.longest_s = broker.steering.longest_s, _NEVER_S
    try:
        yield
    finally:
        broker.steering.longest_s = before_s


@in_virtual_time
async def test_an_owner_answers_at_once_until_its_lease_ends() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, own = one.broker, topic_in(built.bundles[0])
        await broker.ownership.acquire(built.bundles[0])
        broker.memory.disconnect()
        answers = 0
        while broker.watcher.state is not SessionState.LOST:
            answer, took_s = await _timed(one, own)
            if broker.clock.now_s() < broker.watcher.deadline_s:
                assert answer == Connect(broker.urls)
                answers += 1
            assert took_s < _AT_ONCE_S
            await asyncio.sleep(0.25)
        assert answers > 20
        assert (await _timed(one, own)) == ("AuthorityLost", 0.0)


@in_virtual_time
async def test_others_refuse_at_once_what_they_do_not_serve() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        await two.broker.ownership.acquire(built.bundles[0])
        topic = topic_in(built.bundles[0])
        assert await one.lookup.find(topic) == Connect(two.broker.urls)
        one.broker.memory.disconnect()
        for asked in (topic, topic_in(built.bundles[1])):
            answer, took_s = await _timed(one, asked)
            assert answer == "AuthorityLost"
            assert took_s < _AT_ONCE_S
        with pytest.raises(AuthorityLost, match=r"ZooKeeper is away.*ask another broker"):
            await one.lookup.find(topic)


@pytest.mark.parametrize("is_owner", [True, False])
@in_virtual_time
async def test_a_lookup_that_waits_when_the_connection_is_lost_is_answered_then(
    *, is_owner: bool
) -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        if is_owner:
            await broker.ownership.acquire(built.bundles[0])
        with _muted(broker):
            waiting = asyncio.get_running_loop().create_task(_timed(one, topic), name="lookup")
            await asyncio.sleep(0.01)
            assert not waiting.done()
            broker.memory.disconnect()
            answer, took_s = await waiting
        assert answer == (Connect(broker.urls) if is_owner else "AuthorityLost")
        assert took_s < _AT_ONCE_S
        assert one.lookup.statistics().pending == 0


@in_virtual_time
async def test_an_owner_does_not_wait_for_a_store_that_does_not_answer() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        await broker.ownership.acquire(built.bundles[0])
        # Nothing of the namespace was read for a lookup yet, so a read is tried.
        with _muted(broker):
            answer, took_s = await _timed(one, topic)
        assert answer == Connect(broker.urls)
        assert took_s < _AT_ONCE_S


@in_virtual_time
async def test_a_silent_store_counts_as_away_once_heartbeats_are_missing() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        with _muted(broker):
            await asyncio.sleep(broker.watcher.silent_at_s - broker.clock.now_s())
            assert not broker.watcher.has_store
            assert broker.watcher.state is SessionState.CONNECTED
            with pytest.raises(AuthorityLost, match="ZooKeeper does not answer"):
                await one.lookup.find(topic)
            assert (await _timed(one, topic))[1] < _AT_ONCE_S


@in_virtual_time
async def test_a_namespace_of_another_cluster_is_sent_there_as_last_read() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        await broker.ownership.acquire(built.bundles[0])
        here = {"replication_clusters": ["east"], "bundles": {}}
        for path, value in (
            (paths.policies(NAMESPACE), here),
            (paths.cluster("c"), {"peerClusterNames": ["east"]}),
            (paths.cluster("east"), {"serviceUrl": "http://east:8080"}),
        ):
            await _write(broker, path, encode(value))
        await eventually(_says(one, topic, PeerCluster))
        broker.memory.disconnect()
        answer, took_s = await _timed(one, topic)
        assert isinstance(answer, PeerCluster)
        assert took_s < _AT_ONCE_S


@in_virtual_time
async def test_a_bundle_on_its_way_is_not_answered_as_served() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        await broker.ownership.acquire(built.bundles[0])
        broker.memory.disconnect()
        held = broker.ownership.owned()[built.bundles[0]]
        held.advance(BundleState.SPLITTING)
        assert (await _timed(one, topic))[0] == "BundleMoving"
        held.advance(BundleState.OWNED)
        assert (await _timed(one, topic))[0] == Connect(broker.urls)


async def _write(broker: MemoryBroker, path: str, data: bytes) -> None:
    if await broker.store.exists(path) is None:
        await broker.store.create(path, data, make_parents=True)
    else:
        await broker.store.set(path, data)


def _says(door: Door, topic: Topic, kind: type) -> Callable[[], object]:
    async def asked() -> bool:
        return isinstance(await door.lookup.find(topic), kind)

    return asked
