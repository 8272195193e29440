"""Replicas are spread over racks; partitions on too few are counted, and repaired by plan."""

from broker_ctl.core.partitions.values import DEFAULT_RULES
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.partition_cluster import partition
from tests.support.clusters.partition_procedures import admin_of, catching_up, procedures
from tests.support.time.waiting import eventually

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


@in_virtual_time
async def test_new_topics_and_new_partitions_are_on_every_rack() -> None:
    async with catching_up() as (cluster, _):
        cluster.racks = dict(RACKS)
        await cluster.start_broker(*RACKS)
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        replicas = admin.spread(8, 2)
        await admin.create_topic("t", replicas, DEFAULT_RULES, is_dry_run=False)
        await admin.grow_topic("t", 16, {}, is_dry_run=False)
        rows = admin.describe("t")["partitions"]
        assert [sorted(row["racks"]) for row in rows] == [["a", "b"]] * 16
        assert running.value("rack_violations") == 0
        assert [row["rack"] for row in admin.overview()["brokers"]] == ["a", "a", "b", "b"]


@in_virtual_time
async def test_what_was_placed_before_there_were_racks_is_counted_and_repaired_by_a_plan() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        lists = {0: (1, 2), 1: (3, 4), 2: (1, 3)}
        await admin.create_topic("t", lists, DEFAULT_RULES, is_dry_run=False)
        cluster.racks = dict(RACKS)
        for broker in (1, 2, 3):
            await cluster.bounce_broker(broker)
        await eventually(lambda: admin.overview()["brokers"][2]["rack"] == "b")
        assert running.value("rack_violations") == 0, "broker 4 has no rack yet"
        await cluster.bounce_broker(4)
        await eventually(lambda: running.value("rack_violations") == 2)
        assert admin.overview()["rack_violations"] == 2
        assert [row["rack_violations"] for row in admin.topics()] == [2]
        shown = [row["is_rack_violation"] for row in admin.describe("t")["partitions"]]
        assert shown == [True, True, False]
        plan = admin.plan_reassignment(["t"], [1, 2, 3, 4])
        targets = {
            partition("t", row["partition"]): tuple(row["replicas"]) for row in plan["partitions"]
        }
        assert {each.partition for each in targets} == {0, 1}
        await admin.reassign(targets, is_dry_run=False)
        await eventually(lambda: not admin.reassignments())
        assert running.value("rack_violations") == 0
