"""Which broker leads a partition, as each broker answers, over memory and over ZooKeeper."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from broker_ctl.broker.replicas.partition_leaders import PartitionLeaders
from broker_ctl.clock import SystemClock
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.errors import ConnectionLoss, CorruptRecord, InvalidName, StoreError, TopicMissing
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore, NotificationListener, Versioned
from broker_ctl.store.records.partitions import encode_broker, encode_state, encode_topic
from broker_ctl.store.watched_cache import CacheRules
from tests.contract.backends import Backend, MemoryBackend, ZooKeeperBackend
from tests.support.time.waiting import eventually

TOPIC, TOPIC_ID = "orders", "0123456789abcdef" * 2
ONE = TopicPartition(TOPIC, 1)
REPLICAS = (1, 2, 3)
STATE = LeaderAndIsr(leader=2, leader_epoch=4, isr=(2, 3), controller_epoch=7)


@pytest.fixture(params=["memory", "zookeeper"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    backend: Backend = MemoryBackend()
    if request.param == "zookeeper":
        hosts: str = request.getfixturevalue("zookeeper").connect_string
        backend = ZooKeeperBackend(hosts, request.getfixturevalue("chroot"))
    yield backend
    await backend.close()


@pytest.fixture
async def store(backend: Backend) -> MetadataStore:
    return await backend.open(10.0, 10.0)


@pytest.fixture
async def controller(backend: Backend) -> MetadataStore:
    """Another session on the tree, which has written a topic of two partitions, led by 2."""
    store = await backend.open(10.0, 10.0)
    await put_topic(store, TOPIC, 2)
    await put_state(store, ONE, STATE)
    await store.create(
        paths.broker(2),
        encode_broker(LiveBroker(2, 0, "b2", 6650), 1),
        mode=CreateMode.EPHEMERAL,
        make_parents=True,
    )
    return store


@pytest.fixture
async def leaders(store: MetadataStore) -> AsyncIterator[PartitionLeaders]:
    leaders = PartitionLeaders(store, SystemClock(), CacheRules(), rng=random.Random(1))
    yield leaders
    await leaders.close()


async def put_topic(store: MetadataStore, name: str, partitions: int) -> None:
    assignment = TopicAssignment(TOPIC_ID, dict.fromkeys(range(partitions), Assignment(REPLICAS)))
    await put(store, paths.topic(name), encode_topic(assignment))


async def put_state(store: MetadataStore, partition: TopicPartition, state: LeaderAndIsr) -> None:
    await put(store, paths.leader_and_isr(partition), encode_state(state))


async def put(store: MetadataStore, path: str, data: bytes) -> None:
    if await store.exists(path) is None:
        await store.create(path, data, make_parents=True)
    else:
        await store.set(path, data)


async def followed(leaders: PartitionLeaders) -> None:
    """Until the watches stand that the first question sets."""
    with pytest.raises(TopicMissing):
        await leaders.find("nobody-s", 0)
    await eventually(lambda: all(cache._is_watching for cache in leaders.caches.values()))


async def test_a_leader_is_answered_with_its_address_the_isr_and_the_epochs(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    led = await leaders.find(TOPIC, 1)
    assert (led.partition, led.topic_id, led.replicas) == (ONE, TOPIC_ID, REPLICAS)
    assert led.state is not None
    assert led.state._replace(version=0) == STATE._replace(version=0)
    assert led.leader is not None
    assert led.leader.address == "b2:6650"


async def test_a_missing_topic_or_partition_is_refused_by_name(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    with pytest.raises(TopicMissing, match="no replicated topic users"):
        await leaders.of_topic("users")
    with pytest.raises(TopicMissing, match="no partition 2: it has 2 partitions"):
        await leaders.find(TOPIC, 2)
    with pytest.raises(InvalidName):
        await leaders.find("a/b", 0)
    await put_topic(controller, "users", 1)
    await eventually(lambda: can_find(leaders, "users", 0), what="the new topic is seen")
    await put_topic(controller, TOPIC, 3)
    await eventually(lambda: can_find(leaders, TOPIC, 2), what="the new partition is seen")


async def can_find(leaders: PartitionLeaders, topic: str, partition: int) -> bool:
    try:
        await leaders.find(topic, partition)
    except TopicMissing:
        return False
    return True


async def test_a_partition_without_a_state_has_no_leader_yet(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    led = await leaders.find(TOPIC, 0)
    assert (led.replicas, led.state, led.leader) == (REPLICAS, None, None)


async def test_after_a_synced_change_no_lookup_answers_with_the_state_before(
    leaders: PartitionLeaders, store: MetadataStore, controller: MetadataStore
) -> None:
    await followed(leaders)
    for epoch in range(5, 25):
        assert (await leaders.find(TOPIC, 1)).state is not None
        await put_state(controller, ONE, STATE._replace(leader_epoch=epoch))
        # Notifications of earlier commits arrive before the answer to a sync.
        await store.sync("/")
        state = (await leaders.find(TOPIC, 1)).state
        assert state is not None
        assert state.leader_epoch == epoch


async def test_an_answer_that_was_given_is_given_again_without_a_read(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    await followed(leaders)
    await leaders.of_topic(TOPIC)
    loads = [cache.loads for cache in leaders.caches.values()]
    assert await leaders.find(TOPIC, 1) == (await leaders.of_topic(TOPIC))[1]
    assert [cache.loads for cache in leaders.caches.values()] == loads


async def test_a_leader_that_is_gone_has_no_address_and_one_that_moved_has_its_new_one(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    await followed(leaders)
    assert (await leaders.find(TOPIC, 1)).leader is not None

    async def address() -> str:
        leader = (await leaders.find(TOPIC, 1)).leader
        return "nowhere" if leader is None else leader.address

    async def is_at(wanted: str) -> bool:
        return await address() == wanted

    await controller.delete(paths.broker(2))
    await eventually(lambda: is_at("nowhere"))
    data = encode_broker(LiveBroker(2, 0, "elsewhere", 6651), 1)
    await controller.create(paths.broker(2), data, mode=CreateMode.EPHEMERAL)
    await eventually(lambda: is_at("elsewhere:6651"))
    await put_state(controller, ONE, STATE._replace(leader=NO_LEADER, isr=(3,)))
    await eventually(lambda: is_at("nowhere"))


async def test_a_broker_without_lookups_watches_nothing(
    leaders: PartitionLeaders,
    store: MetadataStore,
    controller: MetadataStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched: list[str] = []
    watch = store.watch

    async def counted(path: str, listener: NotificationListener) -> Callable[[], None]:
        watched.append(path)
        return await watch(path, listener)

    monkeypatch.setattr(store, "watch", counted)
    await put_state(controller, ONE, STATE._replace(leader_epoch=5))
    await store.sync("/")
    assert watched == []
    await followed(leaders)
    await leaders.of_topic(TOPIC)
    assert set(watched) == {paths.TOPICS, paths.BROKER_IDS}
    # One for each cache, however many ask.
    assert len(watched) == 3


async def test_a_lookup_before_the_watches_stand_waits_for_none_of_them(
    leaders: PartitionLeaders,
    store: MetadataStore,
    controller: MetadataStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stuck(path: str, listener: NotificationListener) -> Callable[[], None]:
        await asyncio.Event().wait()
        raise AssertionError(path, listener)

    monkeypatch.setattr(store, "watch", stuck)
    for epoch in (5, 6):
        await put_state(controller, ONE, STATE._replace(leader_epoch=epoch))
        await store.sync("/")
        state = (await leaders.find(TOPIC, 1)).state
        assert state is not None
        # Nothing is remembered that no watch keeps right.
        assert state.leader_epoch == epoch


async def test_one_corrupt_node_does_not_hide_the_rest_of_a_large_topic(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    await put_topic(controller, "large", 450)
    for number in (0, 200, 449):
        await put_state(controller, TopicPartition("large", number), STATE)
    spoilt = paths.leader_and_isr(TopicPartition("large", 200))
    await controller.set(spoilt, b"{}")
    found = await leaders.of_topic("large")
    assert [led.partition.partition for led in found] == list(range(450))
    assert [led.partition.partition for led in found if led.state is not None] == [0, 449]
    assert leaders.corrupt == 1


async def test_an_assignment_that_does_not_decode_is_not_a_missing_topic(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    await controller.set(paths.topic(TOPIC), b"spoilt")
    with pytest.raises(CorruptRecord, match="orders"):
        await leaders.find(TOPIC, 1)


async def test_the_memory_of_answers_is_bounded(
    store: MetadataStore, controller: MetadataStore
) -> None:
    leaders = PartitionLeaders(
        store, SystemClock(), CacheRules(most_entries=10), rng=random.Random(1)
    )
    await followed(leaders)
    await put_topic(controller, "large", 40)
    await eventually(lambda: can_find(leaders, "large", 39))
    assert len(await leaders.of_topic("large")) == 40
    assert max(len(cache) for cache in leaders.caches.values()) == 10
    await leaders.close()


async def test_after_an_expiry_the_store_is_asked_again(
    leaders: PartitionLeaders, backend: Backend, store: MetadataStore, controller: MetadataStore
) -> None:
    await followed(leaders)
    await leaders.find(TOPIC, 1)
    await backend.expire(store)
    await put_state(controller, ONE, STATE._replace(leader_epoch=9))

    async def is_new() -> bool:
        try:
            state = (await leaders.find(TOPIC, 1)).state
        except StoreError:
            return False
        return state is not None and state.leader_epoch == 9

    await eventually(is_new)


async def test_a_connection_that_goes_in_the_middle_of_a_topic_is_one_error(
    leaders: PartitionLeaders,
    store: MetadataStore,
    controller: MetadataStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = store.get

    async def cut(path: str) -> Versioned | None:
        if paths.partition_of_state(path) is not None:
            raise ConnectionLoss("the connection is gone")
        return await read(path)

    await put_topic(controller, "large", 20)
    monkeypatch.setattr(store, "get", cut)
    with pytest.raises(ConnectionLoss):
        await leaders.of_topic("large")
    monkeypatch.undo()
    assert len(await leaders.of_topic("large")) == 20


async def test_a_lookup_after_close_starts_no_watch(
    leaders: PartitionLeaders, controller: MetadataStore
) -> None:
    await leaders.close()
    assert (await leaders.find(TOPIC, 1)).leader is not None
    assert not any(cache._is_watching for cache in leaders.caches.values())
