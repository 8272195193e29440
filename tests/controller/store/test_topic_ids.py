"""Topics whose nodes name no id get one, unless a broker holds their replicas under another."""

from collections.abc import Sequence

from broker_ctl.codec import decode_object, encode
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation, SetData
from tests.support.clusters.partition_cluster import PartitionCluster, partition, partition_cluster
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through, lose_reply

P0, P1 = partition("t", 0), partition("t", 1)
PATH = paths.topic("t")
# The form of Kafka's design v3, and that of Kafka 2.3.
SEEDS = encode({"version": 1, "partitions": {"0": [1, 2], "1": [2, 1]}})
KAFKAS = encode(
    {"version": 2, "partitions": {"0": [1, 2]}, "adding_replicas": {}, "removing_replicas": {}}
)


async def id_of(cluster: PartitionCluster) -> str | None:
    node = await cluster.operator.get(PATH)
    assert node is not None
    found = decode_object(node.data).get("topic_id")
    assert found is None or isinstance(found, str)
    return found


@in_virtual_time
async def test_a_topic_that_a_hand_wrote_without_an_id_is_led() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.operator.create(PATH, SEEDS)
        await cluster.led(P0, 1)
        await cluster.led(P1, 2)
        given = await id_of(cluster)
        assert given is not None
        assert len(given) == 22
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        assert cluster.receivers[2].replicas[P0].topic_id == given
        assert not running.term.context.unreadable


@in_virtual_time
async def test_topics_that_were_there_before_any_controller_are_led_each_under_its_own_id() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.operator.create(PATH, SEEDS)
        await cluster.operator.create(paths.topic("u"), KAFKAS)
        first = await cluster.lead()
        await cluster.led(P1, 2)
        await cluster.led(partition("u"), 1)
        topics = first.term.context.topics
        given = {name: topic.topic_id for name, topic in topics.items()}
        assert len({*given.values()}) == 2
        first.task.cancel()
        await eventually(first.task.done)
        second = await cluster.lead()
        known = second.term.context.topics
        assert {name: topic.topic_id for name, topic in known.items()} == given


@in_virtual_time
async def test_a_topic_keeps_its_id_when_its_node_is_written_in_the_old_form() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        before = await id_of(cluster)
        await cluster.operator.set(PATH, SEEDS)
        await cluster.led(P1, 2)
        assert await id_of(cluster) == before
        await eventually(lambda: P1 in cluster.receivers[1].replicas)
        assert P0 in cluster.receivers[1].replicas


@in_virtual_time
async def test_of_a_topic_that_was_led_nobody_guesses_the_id() -> None:
    async with partition_cluster(1, 2) as cluster:
        first = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        was = await id_of(cluster)
        first.task.cancel()
        await eventually(first.task.done)
        await cluster.operator.set(PATH, SEEDS)
        second = await cluster.lead()
        assert second.term.context.unreadable == {PATH}
        assert "t" not in second.term.context.topics
        assert await id_of(cluster) is None
        assert P0 in cluster.receivers[2].replicas, "it is not a stray"
        await cluster.operator.set(PATH, encode({**decode_object(SEEDS), "topic_id": was}))
        await cluster.led(P1, 2)
        assert not second.term.context.unreadable


@in_virtual_time
async def test_a_node_that_changes_before_its_id_is_written_keeps_what_was_written() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, trying = await led_through(cluster)

        async def meanwhile(operations: Sequence[Operation]) -> None:
            if any(isinstance(one, SetData) and one.path == PATH for one in operations):
                trying.before = None
                await cluster.operator.set(PATH, KAFKAS)

        trying.before = meanwhile
        await cluster.operator.create(PATH, SEEDS)
        await cluster.led(P0, 1)
        assert trying.before is None
        assert list(running.term.context.topics["t"].partitions) == [0]
        assert await id_of(cluster) == running.term.context.topics["t"].topic_id


@in_virtual_time
async def test_an_id_whose_write_has_an_unknown_outcome_is_given_once() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, trying = await led_through(cluster)

        async def lose(operations: Sequence[Operation]) -> None:
            trying.after = None
            await lose_reply(operations)

        trying.after = lose
        await cluster.operator.create(PATH, SEEDS)
        await cluster.led(P0, 1)
        assert trying.after is None
        assert await id_of(cluster) == running.term.context.topics["t"].topic_id
        written = [one for sent in trying.transactions for one in sent if isinstance(one, SetData)]
        assert [one.path for one in written].count(PATH) == 1
