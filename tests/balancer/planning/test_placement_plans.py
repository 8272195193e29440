"""A placement plan of a file: which moves are taken, how it runs, how long it is in force."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.planning.approvals import Approvals, Approved
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.cluster.plan_file import HOLDS_MS, PlanFile, PlannedMove
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.planning.approval import ApprovalState, Fate
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store.records.directives import PlanProgress, PlanRecord
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
# The cycle itself does nothing, so whatever is done was approved.
RULES = replace(QUICK, is_dry_run=True)


def traffic(_: Bundle) -> BundleStats:
    return even_traffic(1e8)


@asynccontextmanager
async def uneven_cluster() -> AsyncIterator[LeaderCluster]:
    """The first broker has all eight bundles."""
    async with running_cluster(A, B, C, traffic=traffic) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        await cluster.create_namespace(8)
        for bundle in RING.bundles:
            await cluster.brokers[A].acquire(bundle)
        yield cluster


def file_of(*moves: tuple[Bundle, str, str]) -> PlanFile:
    planned = tuple(PlannedMove(*move, 1e8) for move in moves)
    return PlanFile("test", 0, 0, 0, planned, (3.0,), (1.1,))


async def asked(balancer: LoadBalancer, file: PlanFile) -> Mapping[str, Any]:
    return await balancer.operations.plan_of_file(file)


async def carried_out(balancer: LoadBalancer, plan_id: str) -> dict[str, Any]:
    await balancer.operations.approve(plan_id, "me", "daily")

    async def is_over() -> bool:
        (row,) = await balancer.operations.plans()
        return row["state"] not in {"approved", "carrying out"}

    await eventually(is_over, deadline_s=120.0)
    (row,) = await balancer.operations.plans()
    return row


@in_virtual_time
async def test_feasible_moves_of_a_file_are_taken_and_the_others_are_reported_as_skipped() -> None:
    one, two, three, four = RING.bundles[:4]
    gone = one.cut((one.range.high // 2,))[0]
    file = file_of((one, A, B), (two, C, B), (gone, A, B), (three, A, "d:8080"), (four, A, C))
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan = await asked(balancer, file)
        assert {row["bundle"] for row in plan["decisions"]} == {str(one), str(four)}
        why = {row["subject"]: row["reason"] for row in plan["skipped"]}
        assert why[str(two)] == "not_owned"
        assert why[str(gone)] == "gone"
        assert str(three) in why
        assert plan["hash"] == file.hash
        assert len(cluster.brokers[A].serving) == 8


@in_virtual_time
async def test_more_than_may_be_in_flight_at_once_is_carried_out_bit_by_bit() -> None:
    """A plan for a day may move a bundle to a broker that has as much load at this moment."""
    moves = [(bundle, A, B) for bundle in RING.bundles[:5]]
    async with uneven_cluster() as cluster, leading_at(cluster, B) as balancer:
        plan = await asked(balancer, file_of(*moves))
        assert plan["moves"] == 5
        row = await carried_out(balancer, plan["id"])
        assert (row["state"], row["done"], row["failed"]) == ("done", 5, 0)
        assert set(cluster.brokers[B].serving) == set(RING.bundles[:5])


@in_virtual_time
async def test_a_plan_that_was_carried_out_is_in_force_for_every_leader() -> None:
    async with uneven_cluster() as cluster:
        async with leading_at(cluster, B) as balancer:
            plan = await asked(balancer, file_of((RING.bundles[0], A, B)))
            row = await carried_out(balancer, plan["id"])
            left_ms = row["in_force_until_ms"] - cluster.clock.wall_ms()
            assert HOLDS_MS - 200_000 < left_ms <= HOLDS_MS
        async with leading_at(cluster, C) as balancer:
            term = balancer.term
            assert term is not None
            approvals = Approvals(term)
            assert approvals.adjusted(RULES) == RULES
            await approvals.load()
            balance = approvals.adjusted(RULES).shedding_rules.balance
            assert balance.band == RULES.shedding_rules.balance.planned_band
            assert (balance.band.high, balance.severe_ratio) == (1.12, 1.14)


class BandRecorder(BalancePlanner):
    """Records the level above which it acts, cycle by cycle."""

    def __init__(self) -> None:
        self.high: list[float] = []

    def observe(
        self, memory: BalanceMemory, view: ClusterView, rules: SheddingRules
    ) -> BalanceMemory:
        self.high.append(rules.balance.band.high)
        return super().observe(memory, view, rules)


@in_virtual_time
async def test_the_cycle_acts_above_another_level_while_a_plan_is_in_force() -> None:
    first, second = BandRecorder(), BandRecorder()
    async with uneven_cluster() as cluster:
        cluster.rules = replace(RULES, shedding=first)
        async with leading_at(cluster, B) as balancer:
            await eventually(lambda: first.high)
            assert set(first.high) == {1.08}
            plan = await asked(balancer, file_of((RING.bundles[0], A, B)))
            await carried_out(balancer, plan["id"])
            await eventually(lambda: first.high[-1] == 1.12)
        cluster.rules = replace(RULES, shedding=second)
        async with leading_at(cluster, C):
            await eventually(lambda: second.high)
            assert set(second.high) == {1.12}


def test_a_plan_that_was_stopped_or_is_over_binds_nobody() -> None:
    record = PlanRecord("x", 1, AuditInfo(5), (), in_force_until_ms=100)
    for state, at_ms, is_in_force in (
        (ApprovalState.APPROVED, 99, True),
        (ApprovalState.DONE, 99, True),
        (ApprovalState.DONE, 100, False),
        (ApprovalState.STOPPED, 99, False),
    ):
        approved = Approved(record, PlanProgress(state, (Fate.DONE,), 5))
        assert approved.is_in_force(at_ms) == is_in_force
    for_the_moment = replace(record, in_force_until_ms=0)
    progress = PlanProgress(ApprovalState.DONE, (Fate.DONE,), 5)
    assert not Approved(for_the_moment, progress).is_in_force(1)
    assert PlanRecord.decode("/x", record.encode()) == record
