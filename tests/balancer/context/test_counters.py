"""Counters of a leader, and the figures that it derives from its current state."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.context.decisions import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerCounters, PlacementLog, PlacementResult
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.balancer.statistics import report_ages_s, standings, tally
from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.history.rows import Outcome
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Ring
from broker_ctl.core.strategies.simple import SimplePlacement
from broker_ctl.errors import NoBroker
from broker_ctl.lab.time import ManualClock
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
BUNDLES = Ring.even(NAMESPACE, 8).bundles
SUCCESS, EMPTY, SKIP = PlacementResult.SUCCESS, PlacementResult.EMPTY, PlacementResult.SKIP


def away_from(source: str) -> Transfer:
    return Transfer(
        bundle=BUNDLES[0],
        source=source,
        destination=C,
        reason=Reason.OVERLOADED,
        detail="why",
        load_vector=NO_LOAD,
        source_before=NO_LOAD,
        destination_before=NO_LOAD,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C) as running:
        running.clock = clock
        await running.create_namespace(8)
        yield running


@pytest.fixture
async def term(cluster: LeaderCluster) -> AsyncIterator[LeaderTerm]:
    async with cluster.term(A) as running:
        await cluster.synced(running)
        yield running


async def test_a_broker_is_relieved_once_a_cycle_however_much_it_gives(
    cluster: LeaderCluster,
) -> None:
    recorder = DecisionRecorder(cluster.journal, cluster.clock, 1, lambda _: None)
    done = Outcome("done")
    recorder.cycle = 1
    for source in (A, A, B):
        recorder.record(away_from(source), done)
    assert recorder.relieved_brokers == 2
    recorder.cycle = 2
    recorder.record(away_from(A), done)
    assert recorder.relieved_brokers == 3
    recorder.record(away_from(B), Outcome("failed"))
    assert recorder.relieved_brokers == 3


async def test_placements_count_by_what_came_of_them(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    await term.placements.place(BUNDLES[0])
    await term.placements.place(BUNDLES[1])
    await term.placements.place(BUNDLES[0])
    assert tally(term).placements == {SUCCESS: 2, SKIP: 1}
    for broker in cluster.brokers.values():
        await broker.registry.announce_drain()
    await eventually(lambda: not any(map(term.dependencies.can_receive, (A, B, C))))
    with pytest.raises(NoBroker):
        await term.placements.place(BUNDLES[0])
    assert tally(term).placements == {SUCCESS: 2, SKIP: 1, EMPTY: 1}


async def test_a_placement_is_timed_with_the_view_that_it_waits_for(
    cluster: LeaderCluster, clock: ManualClock
) -> None:
    parts = cluster.dependencies(A)

    async def slow_ring_of(_: object) -> Ring:
        clock.time_s += 0.25
        return Ring.even(NAMESPACE, 8)

    await cluster.brokers[B].acquire(BUNDLES[1])
    slow = LeaderTerm.of(replace(parts, ring_of=slow_ring_of), await cluster.elect(A))
    await slow.load_monitor.start()
    await cluster.synced(slow)
    await slow.placements.place(BUNDLES[0])
    await slow.placements.place(BUNDLES[0])
    assert tally(slow).placement_s == (0.25, 0.0)
    await slow.load_monitor.close()


def test_leadings_add_up_and_the_newest_times_are_kept() -> None:
    first = BalancerCounters(1, 2, Counter({SUCCESS: 3}), (0.5,) * 1024)
    second = BalancerCounters(10, 20, Counter({SUCCESS: 1, EMPTY: 1}), (0.25, 0.125))
    both = first + second
    assert (both.corrupt_reports, both.relieved_brokers) == (11, 22)
    assert both.placements == {SUCCESS: 4, EMPTY: 1}
    assert len(both.placement_s) == 1024
    assert both.placement_s[-3:] == (0.5, 0.25, 0.125)


def test_a_placement_log_keeps_the_newest_1024_times() -> None:
    log = PlacementLog()
    for number in range(2000):
        log.add(SUCCESS, float(number))
    assert log.results == {SUCCESS: 2000}
    assert log.newest_s == tuple(map(float, range(976, 2000)))


async def test_the_age_of_a_report_counts_from_when_the_leader_got_it(
    cluster: LeaderCluster, term: LeaderTerm, clock: ManualClock
) -> None:
    clock.time_s += 90.0
    assert report_ages_s(term) == {A: 90.0, B: 90.0, C: 90.0}
    await cluster.brokers[B].acquire(BUNDLES[0])
    await cluster.synced(term)
    clock.time_s += 5.0
    assert report_ages_s(term) == {A: 95.0, B: 5.0, C: 95.0}
    await cluster.kill(C)
    await eventually(lambda: report_ages_s(term) == {A: 95.0, B: 5.0})


async def test_only_the_simple_manager_ranks_brokers(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    await term.snapshot_builder.build()
    assert standings(term) == {}
    cluster.rules = replace(QUICK, placement=SimplePlacement())
    async with cluster.term(A) as simple:
        await cluster.synced(simple)
        assert standings(simple) == {}
        await simple.snapshot_builder.build()
        assert standings(simple).keys() == {A, B, C}
