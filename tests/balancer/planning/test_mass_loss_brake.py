"""A mass loss pauses the balancing, until the brokers are back or an operator resumes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor
from broker_ctl.balancer.planning.orphans import MassLossBrake
from broker_ctl.core.cluster.directives import AuditInfo, Drain
from broker_ctl.core.cluster.surges import MassLossRules
from broker_ctl.core.model.names import Ring
from broker_ctl.errors import Fenced
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"
RING = Ring.even(NAMESPACE, 8)


@asynccontextmanager
async def laden_cluster() -> AsyncIterator[LeaderCluster]:
    """Four brokers; the last two own all bundles."""
    async with running_cluster(A, B, C, D, traffic=lambda _: even_traffic(1e7)) as cluster:
        cluster.clock, cluster.rules = LoopClock(), replace(QUICK, shedding=None)
        await cluster.create_namespace(8)
        for number, bundle in enumerate(RING.bundles):
            await cluster.brokers[(C, D)[number % 2]].acquire(bundle)
        yield cluster


def paused(cluster: LeaderCluster, at: str = A) -> bool:
    pause = cluster.brokers[at].directives.pause
    return pause is not None and pause.is_automatic


async def pass_s(cluster: LeaderCluster, seconds: float) -> None:
    until_s = cluster.clock.now_s() + seconds
    await eventually(lambda: cluster.clock.now_s() >= until_s, deadline_s=seconds + 60)


@in_virtual_time
async def test_half_of_the_brokers_lost_pauses_the_balancing_until_one_is_back() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A) as balancer:
        await cluster.kill(C)
        await pass_s(cluster, 5)
        assert not paused(cluster)
        await cluster.kill(D)
        await eventually(lambda: paused(cluster))
        overview = balancer.overview()
        assert overview["lost_brokers"] == [C, D]
        assert overview["pause_reason"].startswith("2 of 4 brokers were lost (c:8080, d:8080)")
        # Their bundles are placed nevertheless.
        await eventually(lambda: sum(len(cluster.brokers[one].serving) for one in (A, B)) == 8)
        # Longer than the window: they still count.
        await pass_s(cluster, 400)
        assert paused(cluster)
        await cluster.add(C)
        await eventually(lambda: not paused(cluster))
        assert cluster.serving_checker.faults == []


@in_virtual_time
async def test_a_leader_knows_of_a_loss_that_only_an_earlier_one_has_seen() -> None:
    async with laden_cluster() as cluster:
        async with leading_at(cluster, A) as balancer:
            await cluster.kill(C)
            await eventually(lambda: cluster.brokers[A].registry.peer(C) is None)
            first_ms = cluster.clock.wall_ms()
            await eventually(lambda: balancer.overview()["lost_brokers"] == [C])
            await pass_s(cluster, 30)
        # Longer than the window in which losses count as one.
        await pass_s(cluster, 400)
        await cluster.add("e:8080")
        async with leading_at(cluster, "e:8080") as balancer:
            await eventually(lambda: balancer.overview()["lost_brokers"] == [C])
            assert abs(balancer.overview()["lost_since_ms"][C] - first_ms) < 60_000
            await cluster.add(C)
            await eventually(lambda: balancer.overview()["lost_brokers"] == [])
            # And it is forgotten for good.
            await pass_s(cluster, 30)
        async with leading_at(cluster, B) as balancer:
            await pass_s(cluster, 30)
            assert balancer.overview()["lost_brokers"] == []


@in_virtual_time
async def test_an_operator_goes_on_without_the_lost_brokers() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A):
        await cluster.kill(C)
        await cluster.kill(D)
        await eventually(lambda: paused(cluster))
        await cluster.brokers[B].directives.end_pause()
        await pass_s(cluster, 30)
        assert cluster.brokers[A].directives.pause is None


@in_virtual_time
async def test_an_operators_pause_stays_when_the_brokers_are_back() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A):
        await cluster.kill(C)
        await cluster.kill(D)
        await eventually(lambda: paused(cluster))
        mine = await cluster.brokers[B].directives.begin_pause(AuditInfo(1, "anna", "the rack"))
        assert (mine.order.who, mine.is_automatic) == ("anna", False)
        await cluster.add(C)
        await cluster.add(D)
        await pass_s(cluster, 30)
        pause = cluster.brokers[A].directives.pause
        assert pause is not None
        assert pause.order.who == "anna"


@in_virtual_time
async def test_brokers_that_are_drained_are_not_lost() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A):
        for broker_id in (C, D):
            await cluster.brokers[A].directives.begin_drain(broker_id, Drain(AuditInfo(0), 4, 0.0))
        await pass_s(cluster, 1)
        await cluster.kill(C)
        await cluster.kill(D)
        await pass_s(cluster, 30)
        assert cluster.brokers[A].directives.pause is None


@in_virtual_time
async def test_losses_that_are_further_apart_than_the_window_are_single_ones() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A):
        await cluster.kill(C)
        await pass_s(cluster, 310)
        await cluster.kill(D)
        await pass_s(cluster, 30)
        assert cluster.brokers[A].directives.pause is None


@in_virtual_time
async def test_a_new_leader_knows_the_losses_from_before_its_term() -> None:
    async with laden_cluster() as cluster:
        balancer = LoadBalancer(cluster.dependencies(A))
        balancer.start()
        try:
            await cluster.kill(C)
            await cluster.kill(D)
            await eventually(lambda: balancer.absence_monitor.lost() == {C, D})
        finally:
            balancer.close()


@in_virtual_time
async def test_a_leader_that_started_after_the_losses_keeps_the_pause_until_they_are_back() -> None:
    async with laden_cluster() as cluster:
        async with leading_at(cluster, A):
            await cluster.kill(C)
            await cluster.kill(D)
            await eventually(lambda: paused(cluster))
        pause = cluster.brokers[B].directives.pause
        assert pause is not None
        assert pause.lost == (C, D)
        # Nothing in this balancer has seen C and D alive.
        async with leading_at(cluster, B) as balancer:
            await pass_s(cluster, 30)
            assert paused(cluster, B)
            assert balancer.overview()["lost_brokers"] == [C, D]
            await cluster.add(C)
            await cluster.add(D)
            await eventually(lambda: not paused(cluster, B))


@in_virtual_time
async def test_live_brokers_whose_reports_are_gone_count_as_lost() -> None:
    async with laden_cluster() as cluster, leading_at(cluster, A):
        for broker_id in (C, D):
            await cluster.brokers[A].store.delete(paths.load_report(broker_id))
        await eventually(lambda: paused(cluster))


@in_virtual_time
async def test_orphans_are_placed_at_a_bounded_rate_while_the_balancing_is_paused() -> None:
    async with laden_cluster() as cluster:
        slow = MassLossRules(placements_per_s=10.0)
        cluster.rules = replace(cluster.rules, mass_loss=slow)
        async with leading_at(cluster, A) as balancer:
            async with asyncio.TaskGroup() as tasks:
                for broker_id in (C, D):
                    tasks.create_task(cluster.kill(broker_id), name=f"kill {broker_id}")
            await eventually(lambda: balancer.overview()["offline_bundles"] > 0)
            began_s = cluster.clock.now_s()
            await eventually(lambda: balancer.overview()["offline_eta_s"] not in {None, 0.0})
            await eventually(lambda: sum(len(cluster.brokers[o].serving) for o in (A, B)) == 8)
            # One in a round of a tenth of a second.
            assert cluster.clock.now_s() - began_s >= 0.5
            await eventually(lambda: balancer.overview()["offline_eta_s"] == 0.0)


@in_virtual_time
async def test_a_deposed_leader_neither_pauses_nor_resumes() -> None:
    async with laden_cluster() as cluster, cluster.term(A) as term:
        monitor = AbsenceMonitor(term.dependencies)
        monitor.start()
        try:
            await cluster.kill(C)
            await cluster.kill(D)
            await eventually(lambda: monitor.lost() == {C, D})
            brake = MassLossBrake(term, monitor)
            await cluster.elect(B)
            with pytest.raises(Fenced):
                await brake.advance(cluster.rules)
            assert cluster.brokers[A].directives.pause is None
        finally:
            monitor.close()
