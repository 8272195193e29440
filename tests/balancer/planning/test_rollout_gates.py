"""What the leader reads before the next broker of a rollout may stop."""

import asyncio
from collections.abc import Collection, Sequence

from broker_ctl.balancer.planning.rollout.observer import InSync
from broker_ctl.balancer.planning.rollout.runner import Patience
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.partitions import encode_broker, encode_state, encode_topic
from tests.contract.backends import MemoryBackend

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


async def topic_with(store: MetadataStore, *isrs: tuple[int, ...], adding: int = 0) -> None:
    """A topic on brokers 1 and 2, perhaps with a third replica that is being added."""
    more = (adding,) if adding else ()
    assigned = Assignment((1, 2, *more), adding=more)
    topic = TopicAssignment(f"{7:032x}", dict.fromkeys(range(len(isrs)), assigned))
    await store.create(partition_paths.topic("t"), encode_topic(topic), make_parents=True)
    for number, isr in enumerate(isrs):
        await put_state(store, TopicPartition("t", number), isr)


async def put_state(store: MetadataStore, partition: TopicPartition, isr: tuple[int, ...]) -> None:
    path, data = partition_paths.leader_and_isr(partition), encode_state(state_of(isr))
    if await store.exists(path) is None:
        await store.create(path, data, make_parents=True)
    else:
        await store.set(path, data)


def state_of(isr: tuple[int, ...]) -> LeaderAndIsr:
    return LeaderAndIsr(leader=isr[0], leader_epoch=1, isr=isr, controller_epoch=1)


async def lagging(store: MetadataStore, expected: Collection[int] = (1, 2)) -> tuple[str, ...]:
    return await InSync(store, LoopClock()).lagging(expected)


@in_virtual_time
async def test_a_partition_lags_until_each_expected_broker_is_in_its_isr() -> None:
    store = await MemoryBackend().open(10.0, 10.0)
    assert await lagging(store) == ()
    await topic_with(store, (1,), (1, 2))
    assert await lagging(store) == ("t-0",)
    # A broker that was not there before the restart is not waited for.
    assert await lagging(store, (1,)) == ()
    await put_state(store, FIRST, (1, 2))
    assert await lagging(store) == ()


@in_virtual_time
async def test_a_partition_without_a_state_lags() -> None:
    store = await MemoryBackend().open(10.0, 10.0)
    await topic_with(store, (1, 2))
    await store.delete(partition_paths.leader_and_isr(FIRST))
    assert await lagging(store) == ("t-0",)


class Ordered(ForwardingStore):
    """Notes which path was synced or read, in order."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.asked: list[str] = []

    async def sync(self, path: str) -> None:
        self.asked.append("sync")
        await super().sync(path)

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        self.asked += paths
        return await super().get_many(paths)


@in_virtual_time
async def test_states_are_not_those_of_a_server_that_lags_behind() -> None:
    store = Ordered(await MemoryBackend().open(10.0, 10.0))
    await topic_with(store, (1, 2))
    await lagging(store)
    assert store.asked.index("sync") < store.asked.index(partition_paths.topic("t"))
    assert store.asked.index("sync") < store.asked.index(partition_paths.leader_and_isr(FIRST))


@in_virtual_time
async def test_replicas_of_a_reassignment_are_not_waited_for() -> None:
    store = await MemoryBackend().open(10.0, 10.0)
    await topic_with(store, (1, 2), adding=3)
    assert await lagging(store, (1, 2, 3)) == ()


@in_virtual_time
async def test_an_empty_answer_is_read_each_time_and_another_one_lasts_two_seconds() -> None:
    store = await MemoryBackend().open(10.0, 10.0)
    in_sync = InSync(store, LoopClock())
    await topic_with(store, (1, 2), (1, 2))
    assert await in_sync.lagging((1, 2)) == ()
    await put_state(store, SECOND, (2,))
    assert await in_sync.lagging((1, 2)) == ("t-1",)
    await put_state(store, SECOND, (1, 2))
    assert await in_sync.lagging((1, 2)) == ("t-1",)
    await asyncio.sleep(2)
    assert await in_sync.lagging((1, 2)) == ()


@in_virtual_time
async def test_live_brokers_are_those_that_have_registered_for_replicas() -> None:
    store = await MemoryBackend().open(10.0, 10.0)
    in_sync = InSync(store, LoopClock())
    assert await in_sync.live_ids() == ()
    for number in (10, 9):
        data = encode_broker(LiveBroker(number, 0, "b", 6650), 1)
        await store.create(partition_paths.broker(number), data, make_parents=True)
    assert await in_sync.live_ids() == (9, 10)
    # Whatever anybody else has put beside them.
    for name in ("x", "²", "9" * 5000):
        await store.create(f"{partition_paths.BROKER_IDS}/{name}", b"")
    assert await in_sync.live_ids() == (9, 10)


@in_virtual_time
async def test_patience_counts_from_the_last_sign_of_a_broker() -> None:
    patience = Patience(LoopClock())
    assert patience.waited_s("a", 1) == 0.0
    await asyncio.sleep(3)
    assert patience.waited_s("b", 1) == 0.0
    assert patience.waited_s("a", 1) == 3.0
    assert patience.waited_s("a", 2) == 0.0
