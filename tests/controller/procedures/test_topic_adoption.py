"""Topics with states and without an id have leaders again after an operator adopts them."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from broker_ctl.codec import encode
from broker_ctl.core.partitions.values import DEFAULT_RULES, LeaderAndIsr, TopicPartition
from broker_ctl.errors import BrokerCtlError, NoController, OrderConflict, TopicMissing
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Operation, SetData
from broker_ctl.store.records.partitions import encode_state
from tests.support.clusters.partition_cluster import (
    PartitionCluster,
    partition,
    partition_cluster,
    topic_id,
)
from tests.support.clusters.partition_procedures import (
    Story,
    admin_of,
    catching_up,
    ends_alike_wherever_it_is_cut,
    procedures,
    put_in_kafkas_form,
    topic_of,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through, lose_reply

P0, P1, P2 = (partition("t", number) for number in range(3))
PATH = paths.topic("t")
ID = "5f" * 16
NODE = encode({"version": 1, "partitions": {"0": [1, 2], "1": [2, 1], "2": [1, 2]}})
STATE = {"version": 1, "controller_epoch": 90, "leader": 2, "leader_epoch": 7, "isr": [2]}


def test_kafkas_states_stand_where_kafka_has_them() -> None:
    assert paths.kafka_state(P1) == "/brokers/topics/t/partitions/1/state"


@pytest.mark.parametrize("given", [ID, None])
@in_virtual_time
async def test_a_topic_of_kafkas_is_led_by_who_was_in_sync_and_its_epochs_go_on(
    given: str | None,
) -> None:
    async with partition_cluster(1, 2) as cluster:
        # Of partition 1 the leader is gone, 2 was never led.
        gone = {**STATE, "leader": -1, "leader_epoch": 4, "isr": [1]}
        await put_in_kafkas_form(cluster, NODE, {P0: STATE, P1: gone})
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        assert running.term.context.unreadable == {PATH}
        dry = await admin.adopt_topic("t", given or ID, is_dry_run=True)
        assert "t" not in running.term.context.topics
        assert (dry["topic"], dry["topic_id"], dry["brokers"], dry["dead"]) == ("t", ID, [1, 2], [])
        shown = [
            (row["partition"], row["state"], row["leader"], list(row["isr"]), row["leader_epoch"])
            for row in dry["partitions"]
        ]
        assert shown == [
            (0, "kafka", 2, [2], 7),
            (1, "kafka", -1, [1], 4),
            (2, "none", -1, [], -1),
        ]
        assert await cluster.operator.get(paths.partition(P0)) is None
        reply = await admin.adopt_topic("t", given, is_dry_run=False)
        assert reply["partitions"] == dry["partitions"]
        assert await cluster.led(P0, 2) == LeaderAndIsr(2, 7, (2,), 1, version=0)
        led = await cluster.led(P1, 1)
        assert (led.leader_epoch, led.isr, led.is_recovering) == (5, (1,), False)
        await cluster.led(P2, 1)
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert topic.topic_id == reply["topic_id"]
        # A new id is in base64, as Kafka's; one that is given stays in the form it has.
        assert len(topic.topic_id) == (22 if given is None else 32)
        assert (topic.topic_id == ID) == (given is not None)
        replicas = cluster.receivers[2].replicas
        await eventually(lambda: {P0, P1, P2} <= replicas.keys())
        assert {replicas[each].topic_id for each in (P0, P1, P2)} == {topic.topic_id}
        assert not running.term.context.unreadable


@in_virtual_time
async def test_a_topic_in_the_form_of_the_design_keeps_its_replicas_and_gets_leaders() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.operator.create(PATH, encode({"0": [2, 1], "1": [1, 2]}))
        await cluster.lead(procedures())
        await cluster.led(P0, 2)
        await cluster.led(P1, 1)
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert len(topic.topic_id) == 22
        assert {number: of.replicas for number, of in topic.partitions.items()} == {
            0: (2, 1),
            1: (1, 2),
        }


@in_virtual_time
async def test_states_in_the_form_of_the_design_are_adopted() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.operator.create(PATH, encode({"0": [1, 2]}))
        await cluster.operator.create(
            paths.leader_and_isr(P0), encode({"leader": 2, "ISR": [2]}), make_parents=True
        )
        admin = admin_of(running := await cluster.lead(procedures()))
        assert running.term.context.unreadable == {PATH}
        await admin.adopt_topic("t", ID, is_dry_run=False)
        await eventually(lambda: cluster.receivers[2].leaders() == {P0: 2})
        await cluster.write_isr(P0, 1, 2)
        await cluster.stop_broker(2)
        led = await cluster.led(P0, 1)
        assert (led.leader_epoch, led.isr) == (1, (1,))


@in_virtual_time
async def test_a_topic_node_of_an_unknown_form_is_left_alone() -> None:
    async with partition_cluster(1, 2) as cluster:
        data = encode({"assignment": {"0": [1, 2]}})
        await cluster.operator.create(PATH, data)
        running = await cluster.lead(procedures())
        assert running.term.context.unreadable == {PATH}
        node = await cluster.operator.get(PATH)
        assert node is not None
        assert node.data == data


@in_virtual_time
async def test_replicas_that_brokers_hold_under_the_adopted_id_stay() -> None:
    async with partition_cluster(1, 2) as cluster:
        first = await cluster.lead(procedures())
        await cluster.create_topic("t", (1, 2), (2, 1), (1, 2))
        before = await cluster.led(P0, 1)
        await cluster.led(P1, 2)
        await cluster.led(P2, 1)
        first.task.cancel()
        await eventually(first.task.done)
        await cluster.operator.set(PATH, NODE)
        # What Kafka has left there is older than ours.
        await cluster.operator.create(paths.kafka_partitions("t"))
        path = paths.kafka_state(P0)
        await cluster.operator.create(path.rpartition("/")[0])
        await cluster.operator.create(path, encode(STATE))
        admin = admin_of(second := await cluster.lead(procedures()))
        reply = await admin.adopt_topic("t", topic_id("t"), is_dry_run=False)
        assert {row["state"] for row in reply["partitions"]} == {"broker-ctl"}
        await eventually(lambda: "t" in second.term.context.topics)
        await eventually(lambda: P2 in second.term.context.states)
        assert await cluster.state(P0) == before

        def announced() -> set[TopicPartition]:
            by_second = [
                one for one in cluster.receivers[2].instructions if one.controller_epoch == 2
            ]
            return {replica.partition for one in by_second for replica in one.partitions}

        await eventually(lambda: announced() == {P0, P1, P2})
        assert set(cluster.receivers[2].replicas) == {P0, P1, P2}


async def refused(cluster: PartitionCluster, error: type[BrokerCtlError], why: str) -> None:
    """Adoption is refused as well as its dry run, and nothing is written."""
    admin = admin_of(await cluster.lead(procedures()))
    before = await cluster.operator.get(PATH)
    for is_dry_run in (True, False):
        with pytest.raises(error, match=why):
            await admin.adopt_topic("t", ID, is_dry_run=is_dry_run)
    assert await cluster.operator.get(PATH) == before
    assert await cluster.state(P0) is None


@in_virtual_time
async def test_a_topic_that_is_not_there_is_not_adopted() -> None:
    async with partition_cluster(1, 2) as cluster:
        await refused(cluster, TopicMissing, "there is no topic t")


@in_virtual_time
async def test_a_topic_that_is_being_deleted_is_not_adopted() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        await cluster.operator.create(paths.deletion("t"))
        await refused(cluster, TopicMissing, "t is being deleted; without /admin/delete_topics/t")


@in_virtual_time
async def test_a_topic_that_has_an_id_keeps_it() -> None:
    async with partition_cluster(1, 2) as cluster:
        admin = admin_of(await cluster.lead(procedures()))
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        for is_dry_run in (True, False):
            with pytest.raises(OrderConflict, match=f"t has the topic_id {topic_id('t')} already"):
                await admin.adopt_topic("t", ID, is_dry_run=is_dry_run)


@in_virtual_time
async def test_an_id_is_of_one_topic_also_of_one_that_is_being_deleted() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        await cluster.create_topic("u", (1, 2))
        running = await cluster.lead(procedures())
        admin, taken = admin_of(running), topic_id("u")
        with pytest.raises(OrderConflict, match=f"{taken} is the topic_id of u"):
            await admin.adopt_topic("t", taken, is_dry_run=True)
        cluster.receivers[1].stop_refusals[partition("u")] = "storage_error"
        await admin.delete_topic("u", is_dry_run=False)
        assert "u" not in running.term.context.topics
        with pytest.raises(OrderConflict, match=f"{taken} is the topic_id of u"):
            await admin.adopt_topic("t", taken, is_dry_run=False)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (b"{", "/brokers/topics/t/partitions/0/state: it cannot be read"),
        ({**STATE, "isr": []}, "its ISR .. is not of its replicas"),
        ({**STATE, "isr": [2, 3]}, "its ISR .2, 3. is not of its replicas .1, 2."),
        ({**STATE, "leader": 1}, "its leader 1 is not in its ISR .2."),
        ({**STATE, "leader_epoch": -2}, "its leader epoch is -2"),
    ],
)
@in_virtual_time
async def test_adoption_of_a_partition_with_an_invalid_state_is_refused(
    state: Any, why: str
) -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: state})
        await refused(cluster, OrderConflict, why)


@in_virtual_time
async def test_a_node_that_cannot_be_read_is_to_be_mended_first() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, b'{"partitions": {"x": [1]}}', {})
        await refused(cluster, OrderConflict, "/brokers/topics/t.*: mend it first")


@in_virtual_time
async def test_a_controller_that_was_replaced_adopts_nothing() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        first = await cluster.lead(procedures())
        admin, before = admin_of(first), await cluster.operator.get(PATH)
        await cluster.lead(procedures())
        with pytest.raises(NoController):
            await admin.adopt_topic("t", ID, is_dry_run=False)
        assert await cluster.operator.get(PATH) == before
        assert await cluster.state(P0) is None


@in_virtual_time
async def test_a_node_that_changes_meanwhile_is_adopted_as_it_became() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        running, trying = await led_through(cluster, build_admin=procedures())
        grown = encode({"version": 1, "partitions": {"0": [2, 1]}})

        async def meanwhile(operations: Sequence[Operation]) -> None:
            if any(isinstance(one, SetData) and one.path == PATH for one in operations):
                trying.before = None
                await cluster.operator.set(PATH, grown)

        trying.before = meanwhile
        reply = await admin_of(running).adopt_topic("t", ID, is_dry_run=False)
        assert trying.before is None
        (row,) = reply["partitions"]
        assert (row["replicas"], row["state"]) == ([2, 1], "broker-ctl"), "taken over already"
        assert (await cluster.led(P0, 2)).leader_epoch == 7
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert (topic.topic_id, list(topic.partitions)) == (ID, [0])


def makes_states(operations: Sequence[Operation]) -> bool:
    path = paths.leader_and_isr(P0)
    return any(isinstance(one, Create) and one.path == path for one in operations)


@in_virtual_time
async def test_states_that_change_before_they_are_taken_over_are_judged_again() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        running, trying = await led_through(cluster, build_admin=procedures())

        async def elsewhere(operations: Sequence[Operation]) -> None:
            if makes_states(operations):
                await cluster.operator.set(PATH, encode({"version": 1, "partitions": {"0": [1]}}))

        trying.before = elsewhere
        with pytest.raises(OrderConflict, match=r"its ISR .2. is not of its replicas .1."):
            await admin_of(running).adopt_topic("t", ID, is_dry_run=False)
        assert await cluster.state(P0) is None
        await cluster.operator.set(PATH, NODE)

        async def led_on(operations: Sequence[Operation]) -> None:
            if makes_states(operations):
                trying.before = None
                state = encode({**STATE, "leader": 1, "leader_epoch": 8, "isr": [1]})
                await cluster.operator.set(paths.kafka_state(P0), state)

        trying.before = led_on
        # A node of a partition without a state does not block the adoption.
        await cluster.operator.create(paths.partition(P0))
        await admin_of(running).adopt_topic("t", ID, is_dry_run=False)
        assert trying.before is None
        assert await cluster.led(P0, 1) == LeaderAndIsr(1, 8, (1,), 1, version=0)


@pytest.mark.parametrize("lost", [0, 1])
@in_virtual_time
async def test_an_adoption_whose_replies_are_lost_is_done_once(lost: int) -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        running, trying = await led_through(cluster, build_admin=procedures())
        left = itertools.count()

        async def lose(operations: Sequence[Operation]) -> None:
            if next(left) == lost:
                await lose_reply(operations)

        trying.after = lose
        await admin_of(running).adopt_topic("t", None, is_dry_run=False)
        assert (await cluster.led(P0, 2)).leader_epoch == 7
        written = [one for sent in trying.transactions for one in sent if isinstance(one, SetData)]
        assert [one.path for one in written].count(PATH) == 1


@in_virtual_time
async def test_a_controller_that_dies_while_it_adopts_is_followed_by_one_that_does() -> None:
    async def ask(_: PartitionCluster, admin: Any) -> None:
        await admin.adopt_topic("t", ID, is_dry_run=False)

    async def is_over(cluster: PartitionCluster) -> bool:
        states = [await cluster.state(each) for each in (P0, P1, P2)]
        return all(state is not None and state.leader >= 0 for state in states)

    async def final_state(cluster: PartitionCluster) -> Any:
        topic, state = await topic_of(cluster, "t"), await cluster.state(P0)
        assert topic is not None
        assert state is not None
        return topic.topic_id, topic.partitions, state.leader, state.leader_epoch

    async def prepare(cluster: PartitionCluster, _: Any) -> None:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE, P1: {**STATE, "isr": [2, 1]}})

    assert (
        await ends_alike_wherever_it_is_cut(Story((1, 2), prepare, ask, is_over, final_state)) > 2
    )


@in_virtual_time
async def test_an_adopted_topic_is_deleted_with_all_that_kafka_has_left() -> None:
    async with catching_up(1, 2) as (cluster, _):
        await put_in_kafkas_form(cluster, NODE, {P0: STATE, P1: STATE})
        admin = admin_of(running := await cluster.lead(procedures()))
        await admin.adopt_topic("t", ID, is_dry_run=False)
        await eventually(lambda: "t" in running.term.context.topics)
        await admin.delete_topic("t", is_dry_run=False)

        async def is_gone() -> bool:
            return await cluster.operator.get(PATH) is None

        await eventually(is_gone)
        await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)


@in_virtual_time
async def test_a_state_of_ours_that_cannot_be_read_is_not_written_over() -> None:
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        await cluster.operator.create(paths.partition(P0))
        await cluster.operator.create(paths.leader_and_isr(P0), b"{")
        admin = admin_of(running := await cluster.lead(procedures()))
        await admin.adopt_topic("t", ID, is_dry_run=False)
        unreadable = {paths.leader_and_isr(P0)}
        await eventually(lambda: running.term.context.unreadable == unreadable)
        state = encode_state(LeaderAndIsr(1, 9, (1,), 1))
        await cluster.operator.set(paths.leader_and_isr(P0), state)
        assert (await cluster.led(P0, 1)).leader_epoch == 9
