"""Partitioned topics: where the number lies, who hears of it, and what is refused."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import MAX_PARTITIONS, PartitionedTopics
from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import (
    CorruptRecord,
    InvalidName,
    InvalidPolicy,
    NamespaceMissing,
    PoliciesReadOnly,
    PolicyConflict,
    TopicMissing,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.tenants import make_tenants

NAMESPACE = Namespace("t", "ns")
TOPIC = Topic("persistent", NAMESPACE, "a?b %2F+ä")
PATH = paths.partitioned_topic(TOPIC)


class Side:
    """One broker's managers, on stores of its own."""

    def __init__(self, local: MemoryEnsemble, configuration: MemoryEnsemble, seed: int) -> None:
        clock = LoopClock()
        self.local, self.configuration = MemoryStore(local), MemoryStore(configuration)
        self.namespaces = Namespaces(
            self.local,
            self.configuration,
            cluster="c1",
            default_bundles=lambda: 4,
            clock=clock,
            cache_rules=CacheRules(),
            rng=random.Random(1),
        )
        self.parts = PolicyStore.of(self.configuration, clock, random.Random(seed))
        self.topics = PartitionedTopics(self.parts, self.namespaces, CacheRules())

    async def start(self) -> None:
        for store in (self.local, self.configuration):
            await store.start()
            await store.wait_connected()
        await self.namespaces.start()
        await self.topics.start()

    async def close(self) -> None:
        await self.topics.close()
        await self.namespaces.close()
        await self.local.close()
        await self.configuration.close()

    async def partitions(self, topic: Topic = TOPIC) -> int:
        return await self.topics.partitions_of(topic)

    async def json_at(self, path: str = PATH) -> Any:
        node = await self.configuration.get(path)
        return None if node is None else json.loads(node.data)


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Side, Side]]:
    """With the namespace t/ns."""
    local, configuration = MemoryEnsemble(), MemoryEnsemble()
    sides = Side(local, configuration, 1), Side(local, configuration, 2)
    for side in sides:
        await side.start()
    await make_tenants(sides[0].configuration, "c1", "t")
    await sides[0].namespaces.create(NAMESPACE)
    yield sides
    for side in sides:
        await side.close()


@in_virtual_time
async def test_the_number_lies_in_the_configuration_store_where_pulsar_looks_for_it() -> None:
    async with two_brokers() as (one, other):
        await one.topics.create(TOPIC, 4)
        assert await one.json_at() == {"partitions": 4}
        assert await one.local.exists(PATH) is None
        assert await other.partitions() == 4


@in_virtual_time
async def test_every_broker_hears_of_a_change_though_it_remembers() -> None:
    async with two_brokers() as (one, other):
        assert await other.partitions() == 0
        await one.topics.create(TOPIC, 2)
        for expected in (2, 3, 4):
            await one.topics.update(TOPIC, expected)
            await other.configuration.sync(PATH)
            assert [await other.partitions() for _ in range(5)] == [expected] * 5
        await one.topics.delete(TOPIC)
        await other.configuration.sync(PATH)
        assert await other.partitions() == 0
        # One for each thing that became of it; all others were remembered.
        assert other.topics.cache.loads == 5


@in_virtual_time
async def test_a_broker_reads_its_own_writes_at_once() -> None:
    async with two_brokers() as (one, _):
        assert await one.partitions() == 0
        await one.topics.create(TOPIC, 2)
        assert await one.partitions() == 2
        await one.topics.update(TOPIC, 5)
        assert await one.partitions() == 5
        await one.topics.delete(TOPIC)
        assert await one.partitions() == 0


@in_virtual_time
async def test_a_topic_that_was_not_created_has_no_partitions_and_is_not_created() -> None:
    async with two_brokers() as (one, _):
        assert await one.topics.partitions_of(TOPIC) == 0
        assert await one.topics.metadata(TOPIC) == {"partitions": 0, "deleted": False}
        assert await one.json_at() is None
        partition = Topic("persistent", NAMESPACE, "x-partition-0")
        await one.topics.create(Topic("persistent", NAMESPACE, "x"), 1)
        assert await one.partitions(partition) == 0


@in_virtual_time
async def test_fields_that_pulsar_wrote_are_shown_and_survive_an_update() -> None:
    async with two_brokers() as (one, _):
        added = {"deleted": True, "properties": {"team": "a"}, "newer": 1}
        data = json.dumps({"partitions": 2, **added}).encode()
        await one.configuration.create(PATH, data, make_parents=True)
        shown = {"partitions": 2, "deleted": True, "properties": {"team": "a"}}
        assert await one.topics.metadata(TOPIC) == shown
        await one.topics.update(TOPIC, 3)
        assert await one.json_at() == {"partitions": 3, **added}


@in_virtual_time
async def test_metadata_that_does_not_decode_is_an_error_and_counted() -> None:
    async with two_brokers() as (one, _):
        await one.configuration.create(PATH, b"4", make_parents=True)
        for reading in (one.partitions(), one.topics.metadata(TOPIC), one.topics.update(TOPIC, 5)):
            with pytest.raises(CorruptRecord, match="a JSON object was expected"):
                await reading
        assert one.topics.cache.corrupt == 3
        await one.topics.delete(TOPIC)
        assert await one.partitions() == 0


# What is refused.


@in_virtual_time
async def test_a_topic_is_given_partitions_once() -> None:
    async with two_brokers() as (one, other):
        await one.topics.create(TOPIC, 4)
        with pytest.raises(PolicyConflict, match="exists already"):
            await other.topics.create(TOPIC, 8)
        await one.topics.create(Topic("non-persistent", NAMESPACE, TOPIC.local), 8)
        assert await other.partitions() == 4


@pytest.mark.parametrize("local", ["x-partition-0", "x-partition-", "-partition-y", "."])
def test_a_name_that_means_something_else_is_refused(local: str) -> None:
    @in_virtual_time
    async def create() -> None:
        async with two_brokers() as (one, _):
            with pytest.raises(InvalidName):
                await one.topics.create(Topic("persistent", NAMESPACE, local), 1)
            assert await one.topics.of_namespace(NAMESPACE, "persistent") == []

    create()


@in_virtual_time
async def test_a_topic_has_at_least_one_partition_and_an_end_of_them() -> None:
    async with two_brokers() as (one, _):
        few = PartitionedTopics(one.parts, one.namespaces, CacheRules(), most_partitions=lambda: 8)
        for topics, most in ((one.topics, MAX_PARTITIONS), (few, 8)):
            for partitions in (-1, 0, most + 1):
                with pytest.raises(InvalidPolicy, match=f"1 to {most}"):
                    await topics.create(TOPIC, partitions)
            await topics.create(TOPIC, 1)
            for partitions in (-1, 0, most + 1):
                with pytest.raises(InvalidPolicy, match=f"1 to {most}"):
                    await topics.update(TOPIC, partitions)
            await topics.update(TOPIC, most)
            assert await topics.partitions_of(TOPIC) == most
            await topics.delete(TOPIC)


@in_virtual_time
async def test_no_setting_goes_beyond_the_bound() -> None:
    async with two_brokers() as (one, _):
        most = MAX_PARTITIONS * 2
        topics = PartitionedTopics(
            one.parts, one.namespaces, CacheRules(), most_partitions=lambda: most
        )
        with pytest.raises(InvalidPolicy, match=f"1 to {MAX_PARTITIONS}"):
            await topics.create(TOPIC, MAX_PARTITIONS + 1)


@in_virtual_time
async def test_partitions_are_never_taken_away() -> None:
    async with two_brokers() as (one, other):
        await one.topics.create(TOPIC, 4)
        await other.topics.update(TOPIC, 4)
        with pytest.raises(InvalidPolicy, match="4 partitions; their number can only grow"):
            await other.topics.update(TOPIC, 3)
        assert await one.json_at() == {"partitions": 4}


@in_virtual_time
async def test_of_two_updates_at_once_the_higher_number_of_partitions_stays() -> None:
    async with two_brokers() as (one, other):
        await one.topics.create(TOPIC, 1)

        async def give(side: Side, partitions: int) -> None:
            try:
                await side.topics.update(TOPIC, partitions)
            except InvalidPolicy:
                # The other one was quicker, and gave more.
                assert partitions % 2 == 1

        for low in range(1, 40, 2):
            async with asyncio.TaskGroup() as group:
                group.create_task(give(one, low), name="low")
                group.create_task(give(other, low + 1), name="high")
            assert await one.json_at() == {"partitions": low + 1}


@in_virtual_time
async def test_a_topic_without_partitions_can_be_neither_extended_nor_deleted() -> None:
    async with two_brokers() as (one, _):
        with pytest.raises(TopicMissing, match="no partitioned topic"):
            await one.topics.update(TOPIC, 4)
        with pytest.raises(TopicMissing, match="no partitioned topic"):
            await one.topics.delete(TOPIC)


@in_virtual_time
async def test_nothing_is_known_of_a_namespace_that_does_not_exist() -> None:
    async with two_brokers() as (one, _):
        topic = Topic("persistent", Namespace("t", "other"), "x")
        for asked in (
            one.topics.create(topic, 1),
            one.topics.update(topic, 1),
            one.topics.delete(topic),
            one.topics.metadata(topic),
            one.topics.of_namespace(topic.namespace, "persistent"),
            one.partitions(topic),
        ):
            with pytest.raises(NamespaceMissing):
                await asked
        assert await one.json_at(paths.partitioned_topic(topic)) is None


@in_virtual_time
async def test_nothing_is_written_while_policies_are_read_only() -> None:
    async with two_brokers() as (one, other):
        await one.topics.create(TOPIC, 2)
        await other.configuration.create(paths.POLICIES_READ_ONLY, make_parents=True)
        new = Topic("persistent", NAMESPACE, "new")
        for act in (
            one.topics.create(new, 1),
            one.topics.update(TOPIC, 3),
            one.topics.delete(TOPIC),
        ):
            with pytest.raises(PoliciesReadOnly):
                await act
        assert await one.json_at() == {"partitions": 2}
        assert await one.topics.of_namespace(NAMESPACE, "persistent") == [TOPIC]


# Lists.


@in_virtual_time
async def test_a_namespaces_topics_are_listed_by_domain_and_name() -> None:
    async with two_brokers() as (one, other):
        await one.namespaces.create(Namespace("t", "other"))
        for name in ("t/ns/b", "t/ns/a c", "t/ns/ä", "t/other/z", "non-persistent://t/ns/n"):
            await one.topics.create(Topic.parse(name), 1)
        root = paths.partitioned_topics(NAMESPACE, "persistent")
        # No client can ask for this one: its path is not that of a topic.
        await one.configuration.create(f"{root}/a%20c", b'{"partitions":1}')
        listed = await other.topics.of_namespace(NAMESPACE, "persistent")
        assert [topic.local for topic in listed] == ["a c", "b", "ä"]
        listed = await other.topics.of_namespace(NAMESPACE, "non-persistent")
        assert list(map(str, listed)) == ["non-persistent://t/ns/n"]


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_namespace_stays_while_partitioned_topics_are_in_it(domain: str) -> None:
    @in_virtual_time
    async def delete() -> None:
        async with two_brokers() as (one, _):
            topic = Topic(domain, NAMESPACE, "x")
            await one.topics.create(topic, 2)
            with pytest.raises(PolicyConflict, match=f"1 partitioned {domain} topics are in it"):
                await one.namespaces.delete(NAMESPACE)
            assert await one.topics.of_namespace(NAMESPACE, domain) == [topic]
            await one.topics.delete(topic)
            await one.namespaces.delete(NAMESPACE)
            with pytest.raises(NamespaceMissing):
                await one.partitions(topic)

    delete()
