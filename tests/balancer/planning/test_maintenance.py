"""Drains that begin and end at a time, or with a restart; carried out by the leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_ctl.balancer.planning.directive_runner import DirectiveRunner
from broker_ctl.core.cluster.directives import AuditInfo, Drain, DrainTerms, MaintenanceWindow
from broker_ctl.core.model.names import Ring
from broker_ctl.errors import Fenced, OrderConflict
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RULES = replace(QUICK, shedding=None)
RING = Ring.even(NAMESPACE, 4)


@asynccontextmanager
async def laden_cluster(*others: str) -> AsyncIterator[LeaderCluster]:
    """The first broker has all four bundles, which use hardly any of it."""
    async with running_cluster(A, *others, traffic=lambda _: even_traffic(1e7)) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        await cluster.create_namespace(4)
        for bundle in RING.bundles:
            await cluster.brokers[A].acquire(bundle)
        yield cluster


def left(cluster: LeaderCluster) -> int:
    return len(cluster.brokers[A].serving)


async def reach(cluster: LeaderCluster, wall_ms: int) -> None:
    await eventually(lambda: cluster.clock.wall_ms() >= wall_ms)


@in_virtual_time
async def test_a_scheduled_drain_begins_and_ends_at_its_time() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations, now_ms = balancer.operations, cluster.clock.wall_ms()
        terms = DrainTerms(now_ms + 60_000, now_ms + 120_000)
        row = await operations.drain(A, "anna", "new disks", terms)
        assert (row["state"], row["begins_ms"], row["by"]) == ("scheduled", now_ms + 60_000, "anna")
        await reach(cluster, now_ms + 59_000)
        assert left(cluster) == 4
        assert [row["state"] for row in operations.drains()] == ["scheduled"]
        await eventually(lambda: left(cluster) == 0)
        assert now_ms + 60_000 <= cluster.clock.wall_ms() < now_ms + 70_000
        (drained,) = operations.drains()
        assert (drained["ends_ms"], drained["reason"]) == (now_ms + 120_000, "new disks")
        await reach(cluster, now_ms + 119_000)
        assert A in cluster.brokers[B].directives.drains
        await eventually(lambda: operations.drains() == [])
        assert now_ms + 120_000 <= cluster.clock.wall_ms() < now_ms + 125_000
        await balancer.move(RING.bundles[0], A)
        assert cluster.serving_checker.faults == []


@in_virtual_time
async def test_another_leader_begins_what_was_scheduled_before_it() -> None:
    async with laden_cluster(B, C) as cluster:
        now_ms = cluster.clock.wall_ms()
        async with leading_at(cluster, B) as balancer:
            terms = DrainTerms(now_ms + 20_000)
            await balancer.operations.drain(A, "", "", terms)
        await reach(cluster, now_ms + 30_000)
        assert left(cluster) == 4
        async with leading_at(cluster, C):
            await eventually(lambda: left(cluster) == 0)


@in_virtual_time
async def test_the_same_window_again_changes_nothing_and_another_replaces_it() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations, now_ms = balancer.operations, cluster.clock.wall_ms()
        terms = DrainTerms(now_ms + 60_000)
        await operations.drain(A, "anna", "", terms)
        assert (await operations.drain(A, "bert", "", terms))["by"] == "anna"
        later = replace(terms, begins_ms=now_ms + 90_000)
        dry = await operations.drain(A, "bert", "", later, is_dry_run=True)
        assert dry["begins_ms"] == later.begins_ms
        assert [row["begins_ms"] for row in operations.drains()] == [terms.begins_ms]
        assert (await operations.drain(A, "bert", "", later))["by"] == "bert"
        assert [row["begins_ms"] for row in operations.drains()] == [later.begins_ms]


@in_virtual_time
async def test_undrain_cancels_a_window() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations, now_ms = balancer.operations, cluster.clock.wall_ms()
        await operations.drain(A, "", "", DrainTerms(now_ms + 20_000))
        assert await operations.undrain(A)
        assert not await operations.undrain(A)
        await reach(cluster, now_ms + 40_000)
        assert (left(cluster), operations.drains()) == (4, [])


@in_virtual_time
async def test_a_drain_ends_when_its_broker_has_restarted() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations = balancer.operations
        row = await operations.drain(A, "", "", DrainTerms(until_restart=True))
        assert row["until_restart"]
        await eventually(lambda: left(cluster) == 0)
        await cluster.kill(A)
        await eventually(lambda: operations.drains()[0]["state"] == "absent")
        await cluster.add(A)
        await eventually(lambda: operations.drains() == [])


@in_virtual_time
async def test_a_drain_without_an_end_survives_the_restart_of_its_broker() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        await balancer.operations.drain(A, "", "")
        await cluster.kill(A)
        await cluster.add(A)
        now_ms = cluster.clock.wall_ms()
        await reach(cluster, now_ms + 30_000)
        assert set(cluster.brokers[B].directives.drains) == {A}


@in_virtual_time
async def test_a_drain_that_would_overload_the_others_waits_with_its_obstacle() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations, now_ms = balancer.operations, cluster.clock.wall_ms()
        await operations.drain(A, "", "", DrainTerms(now_ms + 10_000, now_ms + 200_000))
        # Meanwhile the only receiver is drained too.
        await cluster.brokers[B].directives.begin_drain(B, Drain(AuditInfo(0), 0, 0.0))
        await reach(cluster, now_ms + 30_000)
        (row,) = [row for row in operations.drains() if row["broker"] == A]
        assert row["state"] == "scheduled"
        assert "no broker could receive" in row["obstacle"]
        assert left(cluster) == 4
        await operations.undrain(B)
        await eventually(lambda: left(cluster) == 0)


@in_virtual_time
async def test_a_window_that_passed_while_nobody_led_is_dropped() -> None:
    async with laden_cluster(B) as cluster:
        now_ms = cluster.clock.wall_ms()
        async with leading_at(cluster, B) as balancer:
            await balancer.operations.drain(A, "", "", DrainTerms(now_ms + 5_000, now_ms + 9_000))
        await reach(cluster, now_ms + 10_000)
        async with leading_at(cluster, B) as balancer:
            await eventually(lambda: balancer.operations.drains() == [])
        assert left(cluster) == 4


@in_virtual_time
async def test_times_that_cannot_be_kept_are_refused() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        now_ms = cluster.clock.wall_ms()
        for terms in (DrainTerms(now_ms + 20_000, now_ms + 10_000), DrainTerms(0, now_ms - 1)):
            with pytest.raises(OrderConflict, match="over before it begins"):
                await balancer.operations.drain(A, "", "", terms)
        with pytest.raises(OrderConflict, match="not a broker-ctl process"):
            await balancer.operations.drain("x:1", "", "", DrainTerms(now_ms + 20_000))


@in_virtual_time
async def test_an_operators_drain_stays_as_it_is_when_a_window_opens() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations, now_ms = balancer.operations, cluster.clock.wall_ms()
        await operations.drain(A, "", "", DrainTerms(now_ms + 5_000, now_ms + 30_000))
        await operations.drain(A, "bert", "")
        await reach(cluster, now_ms + 40_000)
        (row,) = operations.drains()
        assert (row["by"], row["ends_ms"]) == ("bert", None)


@in_virtual_time
async def test_a_deposed_leader_begins_and_ends_nothing() -> None:
    async with laden_cluster(B, C) as cluster, cluster.term(B) as term:
        directives, now_ms = cluster.brokers[B].directives, cluster.clock.wall_ms()
        window = MaintenanceWindow(AuditInfo(0), DrainTerms(now_ms))
        await directives.schedule(A, window)
        await directives.begin_drain(C, Drain(AuditInfo(0), 0, 0.0, ends_ms=now_ms))
        await cluster.publish()
        await cluster.synced(term)
        maintenance = DirectiveRunner(term).maintenance
        await cluster.elect(C)
        with pytest.raises(Fenced):
            await maintenance.advance()
        store = cluster.brokers[B].store
        assert await store.exists(paths.drain(A)) is None
        assert await store.exists(paths.drain(C)) is not None
