"""Drains, carried out by the leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.directives import AuditInfo, DrainTerms
from broker_ctl.core.model.names import Ring
from broker_ctl.core.rules.leader_rules import Budgets
from broker_ctl.errors import OrderConflict
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from tests.support.clusters.in_memory_broker import CAPACITY_BYTES_S, even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
# One at a time at first; what binds other moves must not bind a drain.
ONE_BY_ONE = Budgets(max_moves_per_broker=1, hourly_load_ratio=0.0, namespace_ratio=0.0)
RULES = replace(QUICK, budgets=ONE_BY_ONE, shedding=None)


@asynccontextmanager
async def laden_cluster(*others: str, usage_ratio: float = 0.0) -> AsyncIterator[LeaderCluster]:
    """The first broker has all eight bundles, which use ``usage_ratio`` of it; 0: hardly any."""
    bytes_s = CAPACITY_BYTES_S * usage_ratio / 8 or 1e7
    async with running_cluster(A, *others, traffic=lambda _: even_traffic(bytes_s)) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        await cluster.create_namespace(8)
        for bundle in RING.bundles:
            await cluster.brokers[A].acquire(bundle)
        yield cluster


def left(cluster: LeaderCluster) -> int:
    return len(cluster.brokers[A].serving)


@in_virtual_time
async def test_a_drained_broker_is_emptied_though_paused_and_in_a_dry_run() -> None:
    async with laden_cluster(B, C) as cluster, leading_at(cluster, B) as balancer:
        cluster.rules = replace(RULES, is_dry_run=True)
        await cluster.brokers[B].directives.begin_pause(AuditInfo(0))
        begun = await balancer.operations.drain(A, "anna", "update")
        assert (begun["state"], begun["bundles_begun"], begun["by"]) == ("draining", 8, "anna")
        assert begun["throughput_begun_bytes"] == pytest.approx(8e7)
        await eventually(lambda: left(cluster) == 0)
        await eventually(lambda: balancer.operations.drains()[0]["state"] == "drained")
        assert len(cluster.brokers[B].serving) == len(cluster.brokers[C].serving) == 4
        entries = cluster.journal.recent(50)
        assert {(e.decision.kind, e.decision.reason.value, e.outcome.result) for e in entries} == {
            ("transfer", "drain", "done")
        }
        assert cluster.serving_checker.faults == []


@in_virtual_time
async def test_progress_says_what_is_left_and_when_it_will_be_over() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        await balancer.operations.drain(A, "", "")
        await eventually(lambda: left(cluster) <= 5)
        (row,) = balancer.operations.drains()
        assert row["state"] == "draining"
        assert 0 < row["bundles_left"] < 8
        assert row["progress_ratio"] == pytest.approx(1 - row["bundles_left"] / 8)
        assert row["moves_per_s"] > 0
        expected_s = row["bundles_left"] / row["moves_per_s"]
        assert row["eta_s"] == pytest.approx(expected_s)


@in_virtual_time
async def test_a_drain_moves_more_bundles_at_a_time_while_the_moves_are_short() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        began_s = cluster.clock.now_s()
        await balancer.operations.drain(A, "", "")
        await eventually(lambda: left(cluster) == 0)
        # One, two, three and the last two: a batch a second.
        assert cluster.clock.now_s() - began_s < 5.0


@in_virtual_time
async def test_another_leader_goes_on_with_a_drain() -> None:
    async with laden_cluster(B, C) as cluster:
        async with leading_at(cluster, B) as balancer:
            await balancer.operations.drain(A, "", "")
            await eventually(lambda: left(cluster) <= 5)
        assert left(cluster) > 0
        async with leading_at(cluster, C) as balancer:
            await eventually(lambda: left(cluster) == 0)
            (row,) = balancer.operations.drains()
            assert row["bundles_begun"] == 8
        assert cluster.serving_checker.faults == []
        assert await cluster.record_count() == 0


@in_virtual_time
async def test_a_drained_broker_receives_nothing_until_it_is_undrained() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations = balancer.operations
        await operations.drain(A, "", "")
        await eventually(lambda: left(cluster) == 0)
        with pytest.raises(OrderConflict, match="is drained: undrain it"):
            await balancer.move(RING.bundles[0], A)
        term = balancer.term
        assert term is not None
        view = await term.snapshot_builder.build()
        assert view.brokers[A].is_draining
        assert await operations.undrain(A)
        assert not await operations.undrain(A)
        await balancer.move(RING.bundles[0], A)
        assert left(cluster) == 1


@in_virtual_time
async def test_undraining_in_the_middle_leaves_the_rest_where_it_is() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        await balancer.operations.drain(A, "", "")
        await eventually(lambda: left(cluster) <= 5)
        await balancer.operations.undrain(A)
        kept = left(cluster)
        began_s = cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + 5)
        # One may have been on its way.
        assert left(cluster) >= kept - 1 > 0


@in_virtual_time
async def test_a_drain_survives_the_restart_of_its_broker() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        await balancer.operations.drain(A, "", "")
        await eventually(lambda: left(cluster) == 0)
        await cluster.kill(A)
        await eventually(lambda: balancer.operations.drains()[0]["state"] == "absent")
        await cluster.add(A)
        await eventually(lambda: balancer.operations.drains()[0]["state"] == "drained")
        with pytest.raises(OrderConflict):
            await balancer.move(RING.bundles[0], A)


@in_virtual_time
async def test_the_last_broker_that_could_receive_is_drained_only_by_force() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        operations = balancer.operations
        await operations.drain(B, "", "")
        with pytest.raises(OrderConflict, match="each of the 1 others"):
            await operations.drain(A, "", "")
        store = cluster.brokers[A].store
        assert await store.exists(paths.drain(A)) is None
        assert (await operations.drain(A, "", "", DrainTerms(is_forced=True)))["bundles_left"] == 8
        began_s = cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + 12)
        assert left(cluster) == 8
        reasons = {entry.decision.reason.value for entry in cluster.journal.recent(50)}
        assert reasons == {"no_broker"}


@in_virtual_time
async def test_a_second_order_to_drain_changes_nothing() -> None:
    async with laden_cluster(B) as cluster, leading_at(cluster, B) as balancer:
        await balancer.operations.drain(A, "anna", "")
        await eventually(lambda: left(cluster) == 0)
        again = await balancer.operations.drain(A, "bert", "")
        assert (again["by"], again["bundles_begun"]) == ("anna", 8)


@in_virtual_time
async def test_a_drain_for_which_the_others_have_no_room_is_refused_unless_it_is_forced() -> None:
    # The three carry nine tenths of one: one alone may not, by the limit of 85 %.
    laden = laden_cluster(B, C, usage_ratio=0.9)
    async with laden as cluster, leading_at(cluster, B) as balancer:
        operations = balancer.operations
        await operations.drain(C, "", "")
        await cluster.publish()
        term = balancer.term
        assert term is not None
        await cluster.synced(term)
        for is_dry_run in (True, False):
            with pytest.raises(OrderConflict, match=r"without a:8080 .* 90\.0% .* limit is 85\.0%"):
                await operations.drain(A, "", "", is_dry_run=is_dry_run)
        assert await cluster.brokers[A].store.exists(paths.drain(A)) is None
        assert (await operations.drain(A, "", "", DrainTerms(is_forced=True)))[
            "state"
        ] == "draining"


@in_virtual_time
async def test_a_dry_run_says_what_would_go_where_and_drains_nothing() -> None:
    laden = laden_cluster(B, C, usage_ratio=0.8)
    async with laden as cluster, leading_at(cluster, B) as balancer:
        await cluster.publish()
        term = balancer.term
        assert term is not None
        await cluster.synced(term)
        forecast = await balancer.operations.drain(A, "", "", is_dry_run=True)
        assert (forecast["bundles"], forecast["staying"]) == (8, [])
        assert forecast["throughput_bytes_per_s"] == pytest.approx(CAPACITY_BYTES_S * 0.8)
        rows = {row["broker"]: row for row in forecast["receivers"]}
        assert {broker: row["bundles"] for broker, row in rows.items()} == {B: 4, C: 4}
        assert rows[B]["usage_before_ratio"] == 0.0
        assert rows[B]["usage_after_ratio"] == pytest.approx(0.4)
        assert forecast["usage_at_best_ratio"] == pytest.approx(0.4)
        assert await cluster.brokers[A].store.exists(paths.drain(A)) is None
        assert left(cluster) == 8
