"""Changes of leaders, with time and reason: in the log, and in answers to operators."""

import logging

import pytest

from broker_ctl.controller.state.transitions import MAX_TRANSITIONS, RecentTransitions
from broker_ctl.core.partitions.values import NO_LEADER, PartitionStage, TopicPartition, Transition
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.partition_cluster import partition, partition_cluster
from tests.support.clusters.partition_procedures import admin_of, procedures
from tests.support.time.waiting import eventually

P0, P1 = partition("t", 0), partition("t", 1)


@in_virtual_time
async def test_a_change_of_leader_is_logged_and_listed_with_its_reason_newest_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with partition_cluster(1, 2, 3) as cluster:
        running = await cluster.lead(procedures())
        await cluster.create_topic("t", (1, 2), (1, 2))
        await cluster.led(P1, 1)
        await cluster.write_isr(P1, 1)
        await eventually(lambda: running.term.context.states[P1].isr == (1,))
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await cluster.led(P1, NO_LEADER)
        assert "t-0: leader none -> 1 at leader epoch 0, in sync 1,2 (topic created)" in caplog.text
        assert "t-0: leader 1 -> 2 at leader epoch 1, in sync 2 (broker died)" in caplog.text
        (lost,) = [each for each in caplog.records if "t-1: leader 1 -> none" in each.message]
        assert lost.levelno == logging.WARNING
        rows = admin_of(running).transitions("t", None, 50)
        assert [(row["partition"], row["before"], row["leader"]) for row in rows[:2]] == [
            (1, 1, NO_LEADER),
            (0, 1, 2),
        ]
        assert rows[1] == {
            "at_ms": rows[1]["at_ms"],
            "controller_epoch": 1,
            "topic": "t",
            "partition": 0,
            "before": 1,
            "leader": 2,
            "leader_epoch": 1,
            "isr": [2],
            "reason": "broker died",
        }
        assert rows[1]["at_ms"] > 0


@in_virtual_time
async def test_of_many_changes_at_once_the_log_has_a_few_and_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead(procedures())
        await cluster.create_topic("t", *[(1, 2)] * 25)
        await eventually(lambda: running.value("offline") == 0)
        caplog.clear()
        await cluster.stop_broker(1)
        await eventually(lambda: "more partitions have a new leader" in caplog.text)
        assert caplog.text.count("leader 1 -> 2") == 10
        assert "broker died: 15 more partitions have a new leader" in caplog.text
        assert len(admin_of(running).transitions("t", None, 1000)) == 50


@in_virtual_time
async def test_changes_of_one_event_are_recorded_in_the_order_of_partition_names() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead(procedures())
        for topic in ("b", "c", "a"):
            await cluster.create_topic(topic, *[(1, 2)] * 12)
        await eventually(lambda: running.value("offline") == 0)
        await cluster.stop_broker(1)
        died: list[TopicPartition] = []

        def all_recorded() -> bool:
            rows = running.journal.rows
            died[:] = [each.partition for _, each in rows if each.reason == "broker died"]
            return len(died) == 36

        await eventually(all_recorded)
        assert died == [partition(topic, number) for topic in "abc" for number in range(12)]


def transition(number: int) -> Transition:
    online = PartitionStage.ONLINE
    return Transition(partition("t", number), online, online, 1, 1, (1,), "why", 2)


def test_the_newest_are_kept_and_found() -> None:
    recent = RecentTransitions()
    for number in range(MAX_TRANSITIONS + 5):
        recent.record_transitions(1, number, [transition(number)])
    newest = [each.transition.partition.partition for each in recent.newest(None, None, 2)]
    assert newest == [MAX_TRANSITIONS + 4, MAX_TRANSITIONS + 3]
    assert len(list(recent.newest("t", None, MAX_TRANSITIONS * 2))) == MAX_TRANSITIONS
    assert list(recent.newest("t", 4, 50)) == []
    assert [each.at_ms for each in recent.newest("t", 7, 50)] == [7]
    assert list(recent.newest("u", None, 50)) == []
