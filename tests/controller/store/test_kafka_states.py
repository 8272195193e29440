"""Partitions that Kafka has led go on from their states, and never start with new ones."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from broker_ctl.codec import encode
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Operation
from tests.support.clusters.partition_cluster import partition, partition_cluster, topic_id
from tests.support.clusters.partition_procedures import procedures, put_in_kafkas_form
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through, lose_reply

P0, P1, P2 = (partition("t", number) for number in range(3))
ID = topic_id("t")
# As Kafka writes it since 2.8.
NODE = encode(
    {
        "version": 3,
        "topic_id": ID,
        "partitions": {"0": [1, 2], "1": [2, 1], "2": [1, 2]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
)
STATE = {"version": 1, "controller_epoch": 90, "leader": 2, "leader_epoch": 7, "isr": [2]}
# Its leader is gone, and of the replicas the preferred one was not in sync.
GONE = {**STATE, "leader": -1, "leader_epoch": 4, "isr": [1]}


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/brokers/topics/t/partitions/0/state", "t"),
        ("/brokers/topics/partitions/partitions/0/state", "partitions"),
        ("/brokers/topics/t/partitions/0", None),
        ("/brokers/topics/t/partitions/x/state", None),
        ("/brokers/topics/partitions/0/state", None),
        ("/brokers/topics/t/0/state", None),
        ("/brokers/topics/t", None),
        ("/brokers/t/partitions/0/state", None),
    ],
)
def test_the_topic_of_a_state_of_kafkas_is_known_by_its_path(path: str, topic: str | None) -> None:
    assert paths.topic_of_kafka_state(path) == topic


@pytest.mark.parametrize("is_leading", [True, False])
@in_virtual_time
async def test_leaders_isr_and_epochs_go_on(*, is_leading: bool) -> None:
    async with partition_cluster(1, 2) as cluster:
        if is_leading:
            await cluster.lead(procedures())
        await put_in_kafkas_form(cluster, NODE, {P0: STATE, P1: GONE})
        if not is_leading:
            await cluster.lead(procedures())
        assert await cluster.led(P0, 2) == LeaderAndIsr(2, 7, (2,), 1, version=0)
        led = await cluster.led(P1, 1)
        assert (led.leader_epoch, led.isr, led.is_recovering) == (5, (1,), False)
        # Kafka never led this one: it begins with all that live.
        assert await cluster.led(P2, 1) == LeaderAndIsr(1, 0, (1, 2), 1, version=0)
        replicas = cluster.receivers[2].replicas
        await eventually(lambda: {P0, P1, P2} <= replicas.keys())
        assert replicas[P0].state.leader_epoch == 7


@in_virtual_time
async def test_while_nobody_lives_who_was_in_sync_nobody_leads() -> None:
    async with partition_cluster(1) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        await cluster.lead(procedures())
        await cluster.led(P1, 1)
        # No leader, and in sync as before.
        assert await cluster.led(P0, -1) == LeaderAndIsr(-1, 8, (2,), 1, version=1)
        await cluster.start_broker(2)
        assert (await cluster.led(P0, 2)).isr == (2,)


@pytest.mark.parametrize(
    "state", [b"{", {**STATE, "isr": []}, {**STATE, "isr": [2, 3]}, {**STATE, "leader": 1}]
)
@in_virtual_time
async def test_a_partition_with_an_invalid_state_has_no_leader_until_the_state_is_corrected(
    state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = paths.kafka_state(P0)
    async with partition_cluster(1, 2) as cluster:
        await put_in_kafkas_form(cluster, NODE, {P0: state, P1: GONE})
        running = await cluster.lead(procedures())
        await cluster.led(P1, 1)
        await cluster.led(P2, 1)
        # A broker that starts does not give the partition a state either.
        await cluster.start_broker(3)
        await eventually(lambda: cluster.receivers[3].brokers)
        assert await cluster.state(P0) is None
        assert running.term.context.unreadable == {path}, "no replica is a stray"
        assert running.value("corrupt_nodes")
        assert f"{path}: " in caplog.text
        await cluster.operator.set(path, encode(STATE))
        assert (await cluster.led(P0, 2)).leader_epoch == 7
        assert not running.term.context.unreadable


def makes_states(operations: Sequence[Operation]) -> bool:
    path = paths.leader_and_isr(P0)
    return any(isinstance(one, Create) and one.path == path for one in operations)


@in_virtual_time
async def test_a_state_that_changes_meanwhile_is_taken_over_as_it_became() -> None:
    async with partition_cluster(1, 2) as cluster:
        _, trying = await led_through(cluster, build_admin=procedures())

        async def led_on(operations: Sequence[Operation]) -> None:
            if makes_states(operations):
                trying.before = None
                state = encode({**STATE, "leader": 1, "leader_epoch": 8, "isr": [1]})
                await cluster.operator.set(paths.kafka_state(P0), state)

        trying.before = led_on
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        assert await cluster.led(P0, 1) == LeaderAndIsr(1, 8, (1,), 1, version=0)
        assert trying.before is None


@in_virtual_time
async def test_a_partition_whose_kafka_state_keeps_changing_is_led_once_it_stays() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, trying = await led_through(cluster, build_admin=procedures())
        epochs = itertools.count(8)

        async def led_on(operations: Sequence[Operation]) -> None:
            if makes_states(operations) and next(epochs) < 30:
                state = encode({**STATE, "leader_epoch": next(epochs)})
                await cluster.operator.set(paths.kafka_state(P0), state)

        trying.before = led_on
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        assert (await cluster.led(P0, 2)).isr == (2,)
        assert not running.term.context.unreadable


@in_virtual_time
async def test_one_whose_reply_is_lost_is_taken_over_once() -> None:
    async with partition_cluster(1, 2) as cluster:
        _, trying = await led_through(cluster, build_admin=procedures())

        async def lose(operations: Sequence[Operation]) -> None:
            if makes_states(operations):
                trying.after = None
                await lose_reply(operations)

        trying.after = lose
        await put_in_kafkas_form(cluster, NODE, {P0: STATE})
        assert await cluster.led(P0, 2) == LeaderAndIsr(2, 7, (2,), 1, version=0)
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        assert sum(map(makes_states, trying.transactions)) == 1
