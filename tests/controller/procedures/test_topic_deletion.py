"""Topics that are deleted, with and without all their brokers (docs: kafka-topic-deletion)."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.partitions.instructions import FAILED, STORAGE_ERROR, ReplicaStop
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    Assignment,
    ControllerRules,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import NoAuth, OperationTimeout, TopicExists, TopicMissing
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import (
    BulkStore,
    Change,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    Versioned,
)
from broker_ctl.store.records.partitions import encode_request, encode_topic
from broker_ctl.store.signed import SignedStore, ZnodeSignatures
from tests.support.clusters.partition_cluster import PartitionCluster, Running, partition
from tests.support.clusters.partition_procedures import (
    Story,
    admin_of,
    catching_up,
    ends_alike_wherever_it_is_cut,
    holders,
    procedures,
    topic_of,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import TryingStore

P0, P1 = partition("t", 0), partition("t", 1)
EITHER = pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])
REQUEST = partition_paths.deletion("t")


class OnceDeaf(TryingStore):
    """Does not answer the next read of one node."""

    path = ""

    async def get(self, path: str) -> Versioned | None:
        if path == self.path:
            self.path = ""
            raise OperationTimeout(f"{path}: no answer")
        return await self._inner.get(path)


async def led_through(cluster: PartitionCluster) -> tuple[Running, TryingStore]:
    """A controller whose store can be interfered with."""
    trying: list[TryingStore] = []

    def wrap(store: MetadataStore) -> MetadataStore:
        trying.append(TryingStore(store))
        return cast("MetadataStore", trying[-1])

    return await cluster.lead(procedures(), wrap), trying[0]


async def create(
    running: Running, *replicas: tuple[int, ...], rules: TopicRules = DEFAULT_RULES
) -> None:
    lists = dict(enumerate(replicas))
    await admin_of(running).create_topic("t", lists, rules, is_dry_run=False)


async def held(cluster: PartitionCluster, *brokers: int) -> None:
    await eventually(lambda: holders(cluster, P0) == set(brokers), what=f"held by {brokers}")


def named_since(cluster: PartitionCluster, heard: int) -> set[TopicPartition]:
    """What broker 1 was instructed to keep after the first ``heard`` instructions."""
    instructions = cluster.receivers[1].instructions[heard:]
    return {state.partition for instruction in instructions for state in instruction.partitions}


async def nodes_left(cluster: PartitionCluster) -> list[str]:
    """The nodes of the topic that still exist."""
    paths = [
        partition_paths.topic("t"),
        partition_paths.topic_configuration("t"),
        partition_paths.reassigned_topic("t"),
        REQUEST,
    ]
    return [path for path in paths if await cluster.operator.exists(path) is not None]


class SignaturesOfRequests(ZnodeSignatures):
    """The brokers of these tests sign nothing."""

    def seal(self, path: str, data: bytes, session_id: int) -> bytes:
        return super().seal(path, data, session_id) if path == REQUEST else data

    def open(self, node: Versioned) -> Versioned | None:
        return super().open(node) if node.path == REQUEST else node


async def nothing() -> None:
    pass


async def deleted(cluster: PartitionCluster) -> None:
    async def is_deleted() -> bool:
        return await nodes_left(cluster) == []

    await eventually(is_deleted, what="the topic is deleted")


@EITHER
@in_virtual_time
async def test_replicas_end_first_then_the_nodes_and_the_request_goes_with_the_last(
    has_queues: bool,
) -> None:
    async with catching_up(1, 2, 3, has_queues=has_queues) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2), (2, 3), rules=TopicRules(min_isr=2))
        await held(cluster, 1, 2)
        node = await cluster.operator.get(partition_paths.topic("t"))
        assert node is not None
        seen: list[tuple[Notification, set[int]]] = []
        await cluster.operator.watch(
            "/", lambda change: seen.append((change, holders(cluster, P0) | holders(cluster, P1)))
        )
        await cluster.operator.create(REQUEST)
        await deleted(cluster)
        gone = [(change, left) for change, left in seen if change.change is Change.DELETED]
        topic = partition_paths.topic("t")
        assert all(left == set() for change, left in gone if change.path.startswith(topic))
        order = [change.path for change, _ in gone]
        states = [partition_paths.leader_and_isr(each) for each in (P0, P1)]
        assert order.index(partition_paths.topic("t")) > max(map(order.index, states))
        last = {change.path: change.zxid for change, _ in gone}
        assert last[REQUEST] == last[partition_paths.topic("t")]
        assert last[REQUEST] == last[partition_paths.topic_configuration("t")]
        assert admin_of(running).topics() == []
        assert running.term.context.deleting == set()


@in_virtual_time
async def test_a_topic_on_its_way_out_is_shown_and_its_name_is_not_free() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await create(running, (1, 2))
        assert await admin.delete_topic("t", is_dry_run=True) == {"topic": "t", "partitions": 1}
        assert await nodes_left(cluster) != []
        cluster.receivers[2].is_deaf = True
        assert await admin.delete_topic("t", is_dry_run=False) == {"topic": "t", "partitions": 1}
        (row,) = admin.topics()
        assert (row["topic"], row["partitions"], row["is_deleting"]) == ("t", 1, True)
        with pytest.raises(TopicMissing, match="t is being deleted"):
            admin.describe("t")
        with pytest.raises(TopicMissing, match="t is being deleted"):
            await admin.delete_topic("t", is_dry_run=False)
        for dry in (True, False):
            with pytest.raises(TopicExists, match="t is being deleted"):
                await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=dry)
        with pytest.raises(TopicExists, match="t is being deleted"):
            await admin.grow_topic("t", 3, {}, is_dry_run=True)
        cluster.receivers[2].is_deaf = False
        await deleted(cluster)
        await held(cluster)
        with pytest.raises(TopicMissing, match="there is no topic t"):
            await admin.delete_topic("t", is_dry_run=False)


@EITHER
@in_virtual_time
async def test_a_broker_that_was_down_while_a_topic_was_recreated_comes_back_without_old_data(
    has_queues: bool,
) -> None:
    async with catching_up(1, 2, 3, has_queues=has_queues) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2, 3))
        await held(cluster, 1, 2, 3)
        old_id = cluster.receivers[3].replicas[P0].topic_id
        await cluster.stop_broker(3)
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await deleted(cluster)
        await held(cluster, 3)
        await create(running, (1, 2))
        await held(cluster, 1, 2, 3)
        assert cluster.receivers[3].replicas[P0].topic_id == old_id, "it does not know better"
        await cluster.start_broker(3)
        await held(cluster, 1, 2)
        assert cluster.receivers[1].replicas[P0].topic_id != old_id
        await admin_of(running).reassign({P0: (1, 2, 3)}, is_dry_run=False)
        await held(cluster, 1, 2, 3)
        assert cluster.receivers[3].replicas[P0].topic_id != old_id


@in_virtual_time
async def test_a_broker_that_dies_or_does_not_answer_is_not_waited_for() -> None:
    rules = ControllerRules(acknowledge_s=2.0)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2, 3))
        await held(cluster, 1, 2, 3)
        cluster.receivers[2].is_deaf = cluster.receivers[3].is_deaf = True
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await held(cluster, 2, 3)
        assert REQUEST in await nodes_left(cluster)
        await cluster.stop_broker(3)
        await deleted(cluster)
        await held(cluster, 2, 3)
        cluster.receivers[2].is_deaf = False
        await held(cluster, 3)


@pytest.mark.parametrize(("reason", "is_waited_for"), [(FAILED, True), (STORAGE_ERROR, False)])
@in_virtual_time
async def test_a_replica_that_does_not_end_is_asked_again_unless_its_disk_is_gone(
    reason: str, is_waited_for: bool
) -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        await held(cluster, 1, 2)
        cluster.receivers[2].stop_refusals = {P0: reason}
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await held(cluster, 2)
        if is_waited_for:
            asked = len(cluster.receivers[2].instructions)
            await eventually(lambda: len(cluster.receivers[2].instructions) > asked + 2)
            assert await nodes_left(cluster) != []
            cluster.receivers[2].stop_refusals = {}
        await deleted(cluster)


@in_virtual_time
async def test_a_partition_that_is_added_to_a_topic_being_deleted_is_taken_away_again() -> None:
    """KAFKA-6612: the partition would keep the deletion from ending."""
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        await held(cluster, 1, 2)
        cluster.receivers[2].is_deaf = True
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await held(cluster, 2)
        heard = len(cluster.receivers[1].instructions)
        before = await topic_of(cluster, "t")
        assert before is not None
        grown = TopicAssignment(
            before.topic_id, {**before.partitions, 1: Assignment((1, 2))}, before.version
        )
        path = partition_paths.topic("t")
        await cluster.operator.set(path, encode_topic(grown), before.version)

        async def is_restored() -> bool:
            found = await topic_of(cluster, "t")
            return found is not None and found.partitions == before.partitions

        await eventually(is_restored)
        assert named_since(cluster, heard) == set()
        cluster.receivers[2].is_deaf = False
        await deleted(cluster)


@in_virtual_time
async def test_the_next_controller_only_stops_replicas_of_a_topic_being_deleted() -> None:
    """KAFKA-13342: a replica that is instructed to lead again would never be deleted."""
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2), (2, 1))
        await held(cluster, 1, 2)
        cluster.receivers[2].is_deaf = True
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await held(cluster, 2)
        heard = len(cluster.receivers[1].instructions)
        await cluster.lead(procedures())
        await eventually(lambda: cluster.receivers[1].newest_controller == 2)
        cluster.receivers[2].is_deaf = False
        await deleted(cluster)
        await held(cluster)
        assert named_since(cluster, heard) == set()


@in_virtual_time
async def test_a_partition_that_is_being_moved_ends_everywhere_and_its_request_goes() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        catching.lagging = {3}
        await admin_of(running).reassign({P0: (3, 4)}, is_dry_run=False)
        await held(cluster, 1, 2, 3, 4)
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await deleted(cluster)
        await held(cluster)


@in_virtual_time
async def test_a_request_for_a_topic_that_is_not_there_is_taken_away() -> None:
    async with catching_up(1) as (cluster, _):
        await cluster.lead(procedures())
        await cluster.operator.create(REQUEST)
        await deleted(cluster)


@pytest.mark.parametrize("is_required", [False, True], ids=["accept", "require"])
@in_virtual_time
async def test_a_request_that_anybody_wrote_deletes_nothing_where_signatures_are_required(
    is_required: bool,
) -> None:
    refused: Counter[tuple[str, str]] = Counter()

    def signing(store: MetadataStore) -> MetadataStore:
        signatures = SignaturesOfRequests(
            ClusterKeys.of([bytes(range(32))]),
            "c",
            LoopClock(),
            is_required=is_required,
            on_failure=lambda *failure: refused.update([failure]),
        )
        return SignedStore(cast("BulkStore", store), signatures)

    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures(), signing)
        await create(running, (1, 2))
        await held(cluster, 1, 2)
        await cluster.operator.create(REQUEST)
        await eventually(lambda: refused["deletion", "unsigned"])
        if not is_required:
            await deleted(cluster)
            return
        await running.term.queue.call("what was queued before", nothing)
        assert len(await nodes_left(cluster)) == 3
        assert [row["is_deleting"] for row in admin_of(running).topics()] == [False]
        # The next controller does not believe it either.
        running = await cluster.lead(procedures(), signing)
        assert len(await nodes_left(cluster)) == 3
        # An operator who asks a broker is obeyed, although the node exists.
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await deleted(cluster)


@in_virtual_time
async def test_a_topic_that_cannot_be_read_keeps_no_other_from_being_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with catching_up(1) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1,))
        await cluster.operator.create(partition_paths.topic("broken"), b"{")
        await cluster.operator.create(partition_paths.deletion("broken"))
        await cluster.operator.create(f"{partition_paths.DELETIONS}/no topic")
        await cluster.operator.create(REQUEST)
        await deleted(cluster)
        assert "topic broken cannot be deleted yet" in caplog.text


@in_virtual_time
async def test_an_answer_about_another_topic_by_that_name_is_not_taken_for_this_one() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        cluster.receivers[1].is_deaf = cluster.receivers[2].is_deaf = True
        await admin_of(running).delete_topic("t", is_dry_run=False)
        other = ReplicaStop(P0, "0" * 32, 0, is_deleted=True)
        answers = [StopResponse(broker, other, None) for broker in (1, 2)]
        deletions = running.term.procedures[0]
        await running.term.queue.call("answers", lambda: deletions.on_stop_responses(answers))
        (row,) = admin_of(running).topics()
        assert row["is_deleting"] is True
        assert REQUEST in await nodes_left(cluster)


@in_virtual_time
async def test_a_stop_that_cannot_be_queued_is_queued_later() -> None:
    async with catching_up(1, 2, has_queues=True) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2))
        await held(cluster, 1, 2)

        async def refuse(operations: Sequence[Operation]) -> None:
            if any(each.path.startswith(partition_paths.STATE) for each in operations):
                store.before = None
                raise NoAuth("not now")

        store.before = refuse
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await deleted(cluster)
        await held(cluster)


@in_virtual_time
async def test_a_node_that_another_client_deletes_does_not_delay_the_deletion() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2), (2, 1))
        await held(cluster, 1, 2)
        state = partition_paths.leader_and_isr(P0)

        async def take_away(operations: Sequence[Operation]) -> None:
            if any(isinstance(each, Delete) and each.path == state for each in operations):
                store.before = None
                await cluster.operator.delete(state)

        store.before = take_away
        began_s = cluster.clock.now_s()
        await admin_of(running).delete_topic("t", is_dry_run=False)
        await deleted(cluster)
        assert cluster.clock.now_s() - began_s < 0.9, "not by another attempt"


@in_virtual_time
async def test_a_topic_that_cannot_be_read_now_is_read_later() -> None:
    async with catching_up(1, 2) as (cluster, _):
        trying: list[OnceDeaf] = []

        def wrap(store: MetadataStore) -> MetadataStore:
            trying.append(OnceDeaf(store))
            return cast("MetadataStore", trying[-1])

        running = await cluster.lead(procedures(), wrap)
        await create(running, (1, 2))
        trying[0].path = partition_paths.topic("t")
        await cluster.operator.create(REQUEST)
        await deleted(cluster)
        assert trying[0].path == "", "it was not read"


@EITHER
@in_virtual_time
async def test_a_deletion_ends_alike_wherever_its_controller_dies(has_queues: bool) -> None:
    async def prepare(cluster: PartitionCluster, admin: ControllerOperations) -> None:
        rules = TopicRules(min_isr=1)
        await admin.create_topic("t", {0: (1, 2, 3), 1: (2, 3, 1)}, rules, is_dry_run=False)
        await admin.create_topic("u", {0: (1, 2)}, rules, is_dry_run=False)
        await held(cluster, 1, 2, 3)
        await cluster.operator.create(
            partition_paths.reassigned(P0), encode_request((1, 2)), make_parents=True
        )
        await held(cluster, 1, 2)
        await cluster.stop_broker(3)

    async def ask(_: PartitionCluster, admin: ControllerOperations) -> None:
        await admin.delete_topic("t", is_dry_run=False)

    async def is_over(cluster: PartitionCluster) -> bool:
        return await nodes_left(cluster) == [] and holders(cluster, P0) == set()

    async def final_state(cluster: PartitionCluster) -> list[object]:
        topics = await cluster.operator.children(partition_paths.TOPICS)
        return [topics, holders(cluster, P1), holders(cluster, partition("u"))]

    story = Story((1, 2, 3), prepare, ask, is_over, final_state, has_queues=has_queues)
    assert await ends_alike_wherever_it_is_cut(story) >= 8
