"""Replies of the controller to operators, and to requests that outlive its term."""

import asyncio

import pytest

from broker_ctl.core.partitions.values import DEFAULT_RULES, TopicRules
from broker_ctl.errors import InvalidReplicas, NoController, TopicMissing
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.partition_cluster import partition
from tests.support.clusters.partition_procedures import (
    admin_of,
    catching_up,
    holders,
    procedures,
    topic_of,
)
from tests.support.time.waiting import eventually

P0 = partition("t", 0)


@in_virtual_time
async def test_a_partition_whose_leader_died_is_explained_with_its_changes() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await eventually(lambda: admin.explain("t", 0)["leader"] == 2)
        found = admin.explain("t", 0)
        assert found["reasons"] == ["broker 2 leads: the preferred replica 1 is dead"]
        assert [
            (row["broker"], row["status"], row["is_in_sync"], row["is_leader"])
            for row in found["replicas"]
        ] == [(1, "dead", False, False), (2, "live", True, True)]
        assert [(row["before"], row["leader"], row["reason"]) for row in found["changes"]] == [
            (1, 2, "broker died"),
            (-1, 1, "topic created"),
        ]
        with pytest.raises(TopicMissing):
            admin.explain("t", 1)


@in_virtual_time
async def test_the_overview_counts_what_there_is() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1, 2), 1: (3, 1)}, DEFAULT_RULES, is_dry_run=False)
        await admin.create_topic("u", {0: (3,)}, DEFAULT_RULES, is_dry_run=False)
        await cluster.stop_broker(3)
        await eventually(lambda: admin.overview()["brokers"][2]["state"] == "dead")
        await eventually(lambda: admin.overview()["offline"] == 1)
        overview = dict(admin.overview())
        assert overview.pop("watches") == len(running.term.watches)
        assert overview.pop("queue") == 0
        assert overview == {
            "broker": 0,
            "epoch": 1,
            "topics": 2,
            "partitions": 3,
            "offline": 1,
            "under_replicated": 1,
            "under_min_isr": 0,
            "rack_violations": 0,
            "not_preferred": 2,
            "reassigning": 0,
            "throttle_bytes_per_s": None,
            "deleting": 0,
            "brokers": [
                {
                    "broker": 1,
                    "address": "h1:6650",
                    "daemon": "b1:8080",
                    "epoch": cluster.receivers[1].epoch,
                    "state": "live",
                    "rack": None,
                    "leaders": 2,
                    "replicas": 2,
                },
                {
                    "broker": 2,
                    "address": "h2:6650",
                    "daemon": "b2:8080",
                    "epoch": cluster.receivers[2].epoch,
                    "state": "live",
                    "rack": None,
                    "leaders": 0,
                    "replicas": 1,
                },
                {
                    "broker": 3,
                    "address": None,
                    "daemon": None,
                    "epoch": None,
                    "state": "dead",
                    "rack": None,
                    "leaders": 0,
                    "replicas": 2,
                },
            ],
        }


@in_virtual_time
async def test_topics_are_listed_with_the_numbers_of_their_unhealthy_partitions() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        rules = TopicRules(is_unclean_allowed=True, min_isr=2)
        await admin.create_topic("t", {0: (1, 2), 1: (1, 2)}, rules, is_dry_run=False)
        await cluster.create_topic("never", (9,))
        catching.lagging = {3}
        await admin.reassign({P0: (1, 3)}, is_dry_run=False)
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        await eventually(lambda: len(admin.topics()) == 2)
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert admin.topics()[1] == {
            "topic": "t",
            "topic_id": topic.topic_id,
            "partitions": 2,
            "offline": 0,
            "under_replicated": 1,
            "under_min_isr": 0,
            "rack_violations": 0,
            "reassigning": 1,
            "is_deleting": False,
        }
        assert (admin.topics()[0]["topic"], admin.topics()[0]["offline"]) == ("never", 1)
        description = admin.describe("t")
        assert (description["min_isr"], description["unclean"], description["topic_id"]) == (
            2,
            True,
            topic.topic_id,
        )
        assert description["partitions"][0] == {
            "topic": "t",
            "partition": 0,
            "replicas": [1, 3, 2],
            "racks": [None, None, None],
            "is_rack_violation": False,
            "leader": 1,
            "isr": [1, 2],
            "leader_epoch": 1,
            "controller_epoch": 1,
            "is_recovering": False,
            "adding": [3],
            "removing": [2],
        }
        (never,) = admin.describe("never")["partitions"]
        assert (never["leader"], never["isr"], never["leader_epoch"]) == (-1, [], -1)
        with pytest.raises(TopicMissing, match="there is no topic u"):
            admin.describe("u")


@in_virtual_time
async def test_partitions_below_their_min_isr_are_counted_in_total_and_by_topic() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        lists = {0: (1, 2), 1: (2, 3), 2: (1, 3)}
        await admin.create_topic("t", lists, TopicRules(min_isr=2), is_dry_run=False)
        await admin.create_topic("u", lists, DEFAULT_RULES, is_dry_run=False)
        assert running.value("under_min_isr") == 0
        await cluster.stop_broker(3)
        await eventually(lambda: running.value("under_min_isr") == 2)
        assert admin.overview()["under_min_isr"] == 2
        counts = {row["topic"]: row["under_min_isr"] for row in admin.topics()}
        assert counts == {"t": 2, "u": 0}
        assert running.value("under_replicated") == 4
        await cluster.start_broker(3)
        await eventually(lambda: running.value("under_min_isr") == 0)


@in_virtual_time
async def test_a_plan_names_what_would_move_and_is_what_a_reassignment_takes() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        lists = {0: (1, 2), 1: (2, 1), 2: (1, 2)}
        await admin.create_topic("t", lists, DEFAULT_RULES, is_dry_run=False)
        plan = admin.plan_reassignment(["t"], [1, 2, 3])
        assert plan["version"] == 1
        for row in plan["partitions"]:
            assert row["before"] == list(lists[row["partition"]])
            assert row["replicas"] != row["before"]
        assert sum(3 in row["replicas"] for row in plan["partitions"]) == 2
        targets = {
            partition("t", row["partition"]): tuple(row["replicas"]) for row in plan["partitions"]
        }
        await admin.reassign(targets, is_dry_run=False)
        await eventually(lambda: not admin.reassignments())
        assert admin.plan_reassignment(["t"], [1, 2, 3])["partitions"] == []
        with pytest.raises(InvalidReplicas, match="the list of brokers names 8: no such broker"):
            admin.plan_reassignment(["t"], [1, 8])
        with pytest.raises(InvalidReplicas, match="is to be on 1 brokers"):
            admin.plan_reassignment(["t"], [1])
        with pytest.raises(TopicMissing, match="there is no topic u"):
            admin.plan_reassignment(["u"], [1, 2])


@in_virtual_time
async def test_a_request_to_a_deposed_controller_is_refused() -> None:
    async with catching_up(1, 2) as (cluster, _):
        first = await cluster.lead(procedures())
        admin = admin_of(first)
        second = await cluster.lead(procedures())
        with pytest.raises(NoController):
            await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
        await eventually(first.task.done)
        with pytest.raises(NoController):
            await admin.elect("preferred", [], is_dry_run=False)
        assert await topic_of(cluster, "t") is None
        await admin_of(second).create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)


@in_virtual_time
async def test_an_act_whose_turn_does_not_come_is_not_waited_for_for_ever() -> None:
    async with catching_up(1) as (cluster, _):
        running = await cluster.lead(procedures())
        begun, free = asyncio.Event(), asyncio.Event()

        async def take_long() -> None:
            begun.set()
            await free.wait()

        async with asyncio.TaskGroup() as tasks:
            slow = running.term.queue.call("slow", take_long)
            tasks.create_task(slow, name="slow")
            await begun.wait()
            with pytest.raises(NoController, match="not done within 60 s; it may still"):
                await admin_of(running).create_topic(
                    "t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False
                )
            free.set()
        assert await topic_of(cluster, "t") is None, "nobody waits for it any more"
