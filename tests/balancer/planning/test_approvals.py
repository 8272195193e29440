"""Plans that are shown, approved, carried out, stopped, and handed on to the next leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.planning.approvals import Approved, PlanStore
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.model.load import NO_LOAD, BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.planning.approval import ApprovalState, Fate
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.errors import Fenced, OrderConflict, PlanMissing
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.directives import PlanProgress, PlanRecord
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.in_memory_peers import BEFORE
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
# The cycle itself does nothing, so whatever is done was approved.
RULES = replace(
    QUICK,
    shedding=ThresholdShedder(),
    shedding_rules=SheddingRules(threshold_points=5.0, min_throughput_bytes=0.0),
    is_dry_run=True,
)
ONE_BY_ONE = replace(RULES, budgets=replace(RULES.budgets, max_moves_per_broker=1))


def traffic(_: Bundle) -> BundleStats:
    return even_traffic(1e8)


@asynccontextmanager
async def uneven_cluster() -> AsyncIterator[LeaderCluster]:
    """The first broker has all eight bundles, 800 MB/s of the 1000 that it can take."""
    async with running_cluster(A, B, C, traffic=traffic) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        await cluster.create_namespace(8)
        for bundle in RING.bundles:
            await cluster.brokers[A].acquire(bundle)
        yield cluster


def left(cluster: LeaderCluster) -> int:
    return len(cluster.brokers[A].serving)


async def the_row(balancer: LoadBalancer) -> dict[str, Any]:
    (row,) = await balancer.operations.plans()
    return row


async def shown(balancer: LoadBalancer) -> str:
    plan = await balancer.operations.plan(is_verbose=False)
    plan_id: str = plan["id"]
    return plan_id


@in_virtual_time
async def test_a_plan_says_what_would_be_reached_and_does_nothing() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan = await balancer.operations.plan(is_verbose=True)
        assert plan["held_back"] == "dry_run"
        assert plan["usage_imbalance_before"] == pytest.approx(3.0)
        assert plan["usage_imbalance_after"] < 2.0
        assert plan["moves"] == len(plan["decisions"]) >= 4
        assert plan["load_moved_bytes_per_s"] == pytest.approx(plan["moves"] * 1e8)
        assert plan["load_moved_ratio"] == pytest.approx(plan["moves"] / 8)
        first = plan["decisions"][0]
        assert first["source_usage_before_ratio"] == pytest.approx(0.8)
        assert first["source_usage_after_ratio"] == pytest.approx(0.7)
        assert left(cluster) == 8
        assert await cluster.record_count() == 0
        brief = await balancer.operations.plan(is_verbose=False)
        assert "skipped" not in brief
        assert sum(plan["skipped_by_reason"].values()) == len(plan["skipped"])


@in_virtual_time
async def test_asking_for_a_plan_leaves_what_the_strategy_remembers() -> None:
    async with uneven_cluster() as cluster:
        cluster.rules = replace(RULES, shedding_interval_s=3600.0)
        async with leading_at(cluster, B) as balancer:
            await eventually(lambda: balancer.usage_averages)
            remembered = dict(balancer.usage_averages)
            for bundle in RING.bundles[:3]:
                await balancer.move(bundle, C)
            term = balancer.term
            assert term is not None
            await cluster.synced(term)
            await balancer.operations.plan(is_verbose=False)
            assert dict(balancer.usage_averages) == remembered


@in_virtual_time
async def test_an_approved_plan_is_carried_out_though_paused_and_in_a_dry_run() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        await cluster.brokers[C].directives.begin_pause(AuditInfo(0))
        plan = await balancer.operations.plan(is_verbose=False)
        row = await balancer.operations.approve(plan["id"], "anna", "before the sale")
        assert (row["state"], row["by"], row["waiting"]) == ("approved", "anna", plan["moves"])
        await eventually(lambda: left(cluster) == 8 - plan["moves"])
        for decision in plan["decisions"]:
            assert await cluster.owner(Bundle.parse(decision["bundle"])) == decision["destination"]
        status = await the_row(balancer)
        assert (status["state"], status["done"], status["waiting"]) == ("done", plan["moves"], 0)
        assert cluster.serving_checker.faults == []
        blocked_reason = balancer.operations.history(HistoryFilter(kind="transfer", limit=1000))
        assert {row["result"] for row in blocked_reason} >= {"done"}


@in_virtual_time
async def test_an_approved_plan_starts_at_once() -> None:
    async with uneven_cluster() as cluster:
        cluster.rules = replace(RULES, shedding_interval_s=3600.0)
        async with leading_at(cluster, B) as balancer:
            plan_id = await shown(balancer)
            began_s = cluster.clock.now_s()
            await eventually(lambda: cluster.clock.now_s() > began_s + 5.05)
            began_s = cluster.clock.now_s()
            await balancer.operations.approve(plan_id, "", "")
            await eventually(lambda: left(cluster) < 8)
            assert cluster.clock.now_s() - began_s < 0.2


@in_virtual_time
async def test_another_leader_goes_on_with_what_is_left() -> None:
    async with uneven_cluster() as cluster:
        async with leading_at(cluster, B) as balancer:
            plan = await balancer.operations.plan(is_verbose=False)
            cluster.rules = ONE_BY_ONE
            await balancer.operations.approve(plan["id"], "anna", "")
            await eventually(lambda: left(cluster) <= 6)
        assert left(cluster) > 8 - plan["moves"]
        async with leading_at(cluster, C) as balancer:
            await eventually(lambda: left(cluster) == 8 - plan["moves"])

            async def is_done() -> bool:
                return bool((await the_row(balancer))["state"] == "done")

            await eventually(is_done)
            status = await the_row(balancer)
            assert (status["id"], status["done"], status["by"]) == (
                plan["id"],
                plan["moves"],
                "anna",
            )
        assert cluster.serving_checker.faults == []
        assert await cluster.record_count() == 0


@in_virtual_time
async def test_a_stopped_plan_begins_nothing_more() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan_id = await shown(balancer)
        cluster.rules = ONE_BY_ONE
        await balancer.operations.approve(plan_id, "", "")
        await eventually(lambda: left(cluster) <= 6)
        row = await balancer.operations.stop_plan(plan_id, "bert", "sold")
        assert (row["state"], row["note"]) == ("stopped", "stopped by bert: sold")
        kept, began_s = left(cluster), cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + 5)
        # One may have been on its way.
        assert left(cluster) >= kept - 1 > 3
        assert (await the_row(balancer))["state"] == "stopped"
        with pytest.raises(OrderConflict, match="stopped already"):
            await balancer.operations.stop_plan(plan_id, "", "")
        # It stands until the next one is approved.
        after = await shown(balancer)
        await balancer.operations.approve(after, "", "")
        assert (await the_row(balancer))["id"] == after
        with pytest.raises(PlanMissing):
            await balancer.operations.stop_plan("another", "", "")


@in_virtual_time
async def test_a_move_that_was_under_way_when_its_plan_was_stopped_does_not_restart_it() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan_id = await shown(balancer)
        cluster.rules = ONE_BY_ONE
        cut = cluster.peers.cut_at("prepare", BEFORE)
        await balancer.operations.approve(plan_id, "", "")
        await cut.reached.wait()
        await balancer.operations.stop_plan(plan_id, "", "")
        cut.resumed.set()
        await eventually(lambda: left(cluster) < 8)

        async def is_one_done() -> bool:
            return bool((await the_row(balancer))["done"] >= 1)

        await eventually(is_one_done)
        row = await the_row(balancer)
        assert (row["state"], row["waiting"] > 0) == ("stopped", True)


@in_virtual_time
async def test_one_plan_at_a_time_and_only_what_was_shown() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        operations = balancer.operations
        with pytest.raises(PlanMissing, match="ask for a plan again"):
            await operations.approve("0123456789ab", "", "")
        first = await shown(balancer)
        cluster.rules = ONE_BY_ONE
        second = await shown(balancer)
        assert first != second
        await operations.approve(first, "", "")
        assert (await operations.approve(first, "", ""))["id"] == first
        with pytest.raises(OrderConflict, match=f"plan {first} is being carried out"):
            await operations.approve(second, "", "")


@in_virtual_time
async def test_a_move_whose_bundle_is_elsewhere_is_left_and_reported_as_obsolete() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan = await balancer.operations.plan(is_verbose=False)
        cluster.rules = ONE_BY_ONE
        gone = Bundle.parse(plan["decisions"][0]["bundle"])
        elsewhere = C if plan["decisions"][0]["destination"] == B else B
        await balancer.move(gone, elsewhere)
        await balancer.operations.approve(plan["id"], "", "")

        async def is_done() -> bool:
            return bool((await the_row(balancer))["state"] == "done")

        await eventually(is_done)
        status = await the_row(balancer)
        assert status["obsolete"] >= 1
        assert status["done"] + status["obsolete"] == plan["moves"]
        assert await cluster.owner(gone) == elsewhere
        found = balancer.operations.history(HistoryFilter(kind="skip", bundle=str(gone)))
        assert found[0]["reason"] == "not_owned"
        # Once, though several batches were carried out after it.
        assert cluster.journal.counts()["skip", "not_owned", "skipped"] == 1


@in_virtual_time
async def test_a_plan_without_decisions_cannot_be_approved() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        cluster.rules = replace(RULES, shedding=None)
        plan_id = await shown(balancer)
        with pytest.raises(OrderConflict, match="has no decisions"):
            await balancer.operations.approve(plan_id, "", "")


@in_virtual_time
async def test_a_plan_of_which_nothing_can_be_done_is_given_up() -> None:
    async with uneven_cluster() as cluster:
        cluster.rules = replace(RULES, shedding_interval_s=9999.0, quota_interval_s=9999.0)
        async with leading_at(cluster, B) as balancer:
            plan_id = await shown(balancer)
            no_moves = replace(RULES.budgets, max_moves=0)
            cluster.rules = replace(cluster.rules, budgets=no_moves)
            await balancer.operations.approve(plan_id, "", "")

            async def is_stopped() -> bool:
                return bool((await the_row(balancer))["state"] == "stopped")

            await eventually(is_stopped, deadline_s=700.0, poll_s=10.0)
            row = await the_row(balancer)
            assert row["note"] == "no remaining decision could be executed for 600 s"
            assert (row["waiting"], left(cluster)) == (row["decisions"], 8)


# Nodes.

NONE = NO_LOAD
MOVE = Transfer(RING.bundles[0], A, B, Reason.ADMIN, "x" * 300, NONE, NONE, NONE)


def approved(plan_id: str, count: int = 1) -> Approved:
    record = PlanRecord(plan_id, 1, AuditInfo(5), (MOVE,) * count)
    return Approved(record, PlanProgress(ApprovalState.APPROVED, (Fate.WAITING,) * count, 5))


def nodes_of(term: LeaderTerm) -> PlanStore:
    return PlanStore(term.dependencies.store, term.leadership)


@in_virtual_time
async def test_a_plan_that_no_node_can_hold_is_refused_with_what_could_be() -> None:
    async with uneven_cluster() as cluster, cluster.term(B) as term:
        with pytest.raises(
            OrderConflict, match=r"has 3000 decisions, but a node holds about \d{4}:"
        ):
            await nodes_of(term).create(approved("p", 3000))
        assert await nodes_of(term).read_all() == []


@in_virtual_time
async def test_a_leader_that_was_deposed_writes_no_plan() -> None:
    async with uneven_cluster() as cluster, cluster.term(B) as term:
        nodes = nodes_of(term)
        await nodes.create(approved("p"))
        await cluster.elect(C)
        with pytest.raises(Fenced):
            await nodes.create(approved("q"))
        with pytest.raises(Fenced):
            await nodes.write("p", approved("p").progress)
        with pytest.raises(Fenced):
            await nodes.forget("p")
        assert [each.record.plan_id for each in await nodes.read_all()] == ["p"]


@in_virtual_time
async def test_nodes_that_nobody_can_read_are_left_alone() -> None:
    async with uneven_cluster() as cluster, cluster.term(B) as term:
        nodes, store = nodes_of(term), term.dependencies.store
        for plan_id in ("newer", "spoilt", "short", "good", "lone"):
            await nodes.create(approved(plan_id))
        await store.set(paths.plan("newer"), b'{"version":99}')
        await store.set(paths.plan("spoilt"), b"nonsense")
        await store.set(paths.plan_progress("short"), approved("x", 2).progress.encode())
        await store.delete(paths.plan_progress("lone"))
        assert [each.record.plan_id for each in await nodes.read_all()] == ["good"]
        await nodes.forget("good")
        assert await nodes.read_all() == []
        assert len(await store.children(paths.PLANS)) == 4


@in_virtual_time
async def test_a_plan_whose_node_was_deleted_by_hand_is_stopped() -> None:
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan_id = await shown(balancer)
        cluster.rules = ONE_BY_ONE
        await balancer.operations.approve(plan_id, "", "")
        await eventually(lambda: left(cluster) <= 7)
        await cluster.brokers[B].store.delete(paths.plan_progress(plan_id))

        async def is_stopped() -> bool:
            return bool((await the_row(balancer))["note"] == "its node was deleted")

        await eventually(is_stopped)
        assert left(cluster) > 3
