from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.planning.cycle import Cycle
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Reason, Split, Transfer
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rules.leader_rules import MergeRules, SplitRules
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leader_cycles import cycle_of
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
CROWDED = RING.bundles[3]
SPLITTING = SplitRules(max_bandwidth_bytes=0, max_msg_rate=0, is_unloading=False)
BALANCING = replace(QUICK, shedding=ThresholdShedder(), splitting=SPLITTING)


def skewed(bundle: Bundle) -> BundleStats:
    """Three bundles of 200 MB/s, and one with many topics and little traffic."""
    if bundle.overlaps(CROWDED):
        return even_traffic(1e6, topics=1500 if bundle == CROWDED else 750)
    return even_traffic(2e8)


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C, traffic=skewed) as running:
        await running.create_namespace(8)
        running.rules = BALANCING
        for bundle in RING.bundles[:4]:
            await running.brokers[A].acquire(bundle)
        yield running


@pytest.fixture
async def term(cluster: LeaderCluster) -> AsyncIterator[LeaderTerm]:
    async with cluster.term(B) as running:
        await cluster.synced(running)
        yield running


@pytest.fixture
def cycle(term: LeaderTerm) -> Cycle:
    return cycle_of(term)


def results(cluster: LeaderCluster) -> set[tuple[str, str]]:
    return {
        (entry.decision.kind, entry.outcome.result)
        for entry in cluster.journal.recent(50)
        if entry.decision.kind != "skip"
    }


async def test_one_cycle_splits_the_crowded_and_sheds_the_overloaded(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    plan = await cycle.once(cluster.rules)
    kinds = {type(decision) for decision in plan.decisions}
    assert kinds == {Split, Transfer}
    assert results(cluster) == {("split", "done"), ("transfer", "done")}
    assert CROWDED not in cluster.brokers[A].serving
    children = CROWDED.cut((CROWDED.range.low + 2**28,))
    assert set(children) <= set(cluster.brokers[A].serving)
    assert len(cluster.brokers[B].serving) + len(cluster.brokers[C].serving) >= 1
    assert cluster.serving_checker.faults == []
    before, after = plan.before.throughput, plan.after.throughput
    assert before is not None
    assert after is not None
    assert after < before


async def test_a_moved_bundle_is_not_moved_again_before_the_next_reports(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    first = await cycle.once(cluster.rules, is_split_due=False)
    second = await cycle.once(cluster.rules, is_split_due=False)
    moved = {d.bundle for d in first.decisions if isinstance(d, Transfer)}
    assert moved
    assert not moved & {d.bundle for d in second.decisions if isinstance(d, Transfer)}


@pytest.mark.parametrize("held_back", ["paused", "dry_run"])
async def test_a_pause_and_a_dry_run_decide_and_do_nothing(
    cluster: LeaderCluster, term: LeaderTerm, cycle: Cycle, held_back: str
) -> None:
    if held_back == "paused":
        await term.dependencies.store.create(paths.PAUSE, make_parents=True)
    else:
        cluster.rules = replace(cluster.rules, is_dry_run=True)
    before = dict(cluster.brokers[A].serving)
    plan = await cycle.once(cluster.rules)
    assert plan.decisions
    assert results(cluster) == {("split", held_back), ("transfer", held_back)}
    assert cluster.peers.sent == []
    assert cluster.brokers[A].serving == before
    assert cycle.is_paused == (held_back == "paused")


async def test_a_cycle_of_a_balanced_cluster_records_why_nothing_is_done(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    rules = replace(
        cluster.rules, shedding_rules=replace(cluster.rules.shedding_rules, threshold_points=90.0)
    )
    plan = await cycle.once(rules, is_split_due=False)
    assert plan.decisions == ()
    (entry,) = cluster.journal.recent(5)
    assert (entry.decision.reason.value, entry.outcome.result) == ("below_threshold", "skipped")


async def test_shedding_remembers_from_cycle_to_cycle_until_the_policy_changes(
    cluster: LeaderCluster, term: LeaderTerm, cycle: Cycle
) -> None:
    await cycle.once(cluster.rules, is_split_due=False)
    remembered = cycle.usage_averages
    assert set(remembered) == {A, B, C}
    await cycle.once(cluster.rules, is_split_due=False)
    assert cycle.usage_averages[A] != pytest.approx(remembered[A], abs=1e-12)
    await cycle.once(replace(cluster.rules, shedding=ThresholdShedder()), is_split_due=False)
    view = term.snapshot_builder.latest
    assert view is not None
    # A new policy starts without averages of the past.
    assert cycle.usage_averages == pytest.approx(
        {broker_id: broker.expected.usage_ratio for broker_id, broker in view.brokers.items()}
    )


async def test_the_loop_goes_on_through_trouble_of_the_store(
    cluster: LeaderCluster, term: LeaderTerm, cycle: Cycle
) -> None:
    cluster.rules = replace(cluster.rules, shedding_interval_s=0.05, splitting=None)
    store = cluster.brokers[B].store
    async with TaskScope("test") as tasks:
        cycling = tasks.start(cycle.run(), "cycle")
        await eventually(lambda: term.recorder.cycle >= 2)
        store.disconnect()
        store.reconnect()
        await store.wait_connected()
        seen = term.recorder.cycle
        await eventually(lambda: term.recorder.cycle > seen + 1)
        assert not cycling.done()


@pytest.mark.parametrize(("shedding_s", "splitting_s"), [(0.05, 300.0), (300.0, 0.05)])
async def test_an_interval_that_is_made_shorter_counts_from_the_last_cycle(
    cluster: LeaderCluster,
    term: LeaderTerm,
    cycle: Cycle,
    shedding_s: float,
    splitting_s: float,
) -> None:
    cluster.rules = replace(cluster.rules, shedding_interval_s=300.0, splitting_interval_s=300.0)
    async with TaskScope("test") as tasks:
        cycling = tasks.start(cycle.run(), "cycle")
        await eventually(lambda: term.recorder.cycle == 1)
        cluster.rules = replace(
            cluster.rules, shedding_interval_s=shedding_s, splitting_interval_s=splitting_s
        )
        await eventually(lambda: term.recorder.cycle >= 3)
        assert not cycling.done()


async def test_it_is_known_when_the_next_cycle_is_due(
    cluster: LeaderCluster, term: LeaderTerm, cycle: Cycle
) -> None:
    cluster.rules = replace(cluster.rules, shedding_interval_s=300.0, splitting_interval_s=200.0)
    assert cycle.next_due_s() == 0.0
    async with TaskScope("test") as tasks:
        tasks.start(cycle.run(), "cycle")
        await eventually(lambda: term.recorder.cycle == 1 and cycle.next_due_s() != 0.0)
        left_s = cycle.next_due_s()
        assert left_s is not None
        # Splitting is due first.
        assert 100.0 < left_s <= 200.0
        cluster.rules = replace(cluster.rules, shedding=None, splitting=None, merging=None)
        assert cycle.next_due_s() is None


async def test_nothing_is_shed_while_shedding_is_off(
    cluster: LeaderCluster, term: LeaderTerm, cycle: Cycle
) -> None:
    cluster.rules = replace(cluster.rules, shedding=None)
    plan = await cycle.once(cluster.rules)
    assert {type(decision) for decision in plan.decisions} == {Split}


# Splits under way, and merges.


def kinds_and_reasons(cluster: LeaderCluster) -> list[tuple[str, str, str]]:
    return [
        (entry.decision.kind, entry.decision.reason.value, entry.outcome.result)
        for entry in reversed(cluster.journal.recent(50))
    ]


async def test_the_parts_of_a_split_move_to_brokers_with_more_room(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    unloading = replace(SPLITTING, is_unloading=True)
    rules = replace(cluster.rules, shedding=None, splitting=unloading)
    cluster.rules = rules
    await cycle.once(rules)
    assert kinds_and_reasons(cluster) == [
        ("split", "topics", "done"),
        *[("transfer", "new_part", "done")] * 2,
    ]
    assert not any(b.overlaps(CROWDED) for b in cluster.brokers[A].serving)
    assert cluster.serving_checker.faults == []
    assert await cluster.record_count() == 0


async def test_parts_that_may_not_move_stay_and_the_journal_has_the_reason(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    unloading = replace(SPLITTING, is_unloading=True)
    cluster.rules = replace(
        cluster.rules,
        shedding=None,
        splitting=unloading,
        budgets=replace(cluster.rules.budgets, max_moves=0),
    )
    await cycle.once(cluster.rules)
    assert kinds_and_reasons(cluster) == [
        ("split", "topics", "done"),
        *[("skip", "budget_cluster", "skipped")] * 2,
    ]
    assert sum(b.overlaps(CROWDED) for b in cluster.brokers[A].serving) == 2


async def test_a_bundle_is_split_once_it_was_above_its_limit_often_enough(
    cluster: LeaderCluster, cycle: Cycle
) -> None:
    waiting = replace(SPLITTING, hit_count=2)
    cluster.rules = replace(cluster.rules, shedding=None, splitting=waiting)
    for count in (1, 2):
        await cycle.once(cluster.rules)
        (entry,) = cluster.journal.recent(5)
        assert entry.decision.reason is Reason.HIT_COUNT
        assert entry.decision.detail.startswith(
            f"above a limit in {count} rounds in a row, until 3 "
        )
    await cycle.once(cluster.rules)
    assert kinds_and_reasons(cluster)[-1] == ("split", "topics", "done")


MERGING = MergeRules(hit_count=1, min_bundles=7, cool_down_s=0.0)


def idle(_: Bundle) -> BundleStats:
    return BundleStats(topics=1)


@pytest.fixture
async def idle_cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, traffic=idle) as running:
        await running.create_namespace(8)
        running.rules = replace(QUICK, merging=MERGING)
        yield running


async def test_cold_neighbours_of_one_owner_are_merged_and_no_more_than_may_be(
    idle_cluster: LeaderCluster,
) -> None:
    cluster = idle_cluster
    for bundle in RING.bundles[:4]:
        await cluster.brokers[A].acquire(bundle)
    async with cluster.term(B) as term:
        await cluster.synced(term)
        cycle = cycle_of(term)
        for _ in range(3):
            await cycle.once(cluster.rules)
            await cluster.synced(term)
    whole = RING.bundles[0].joined(RING.bundles[1])
    assert set(cluster.brokers[A].serving) == {whole, *RING.bundles[2:4]}
    counts = cluster.journal.counts()
    assert counts["merge", "cold", "done"] == 1
    # In the first cycle for the namespace, in the last for the merged bundle and its neighbour.
    assert counts["skip", "hit_count", "skipped"] == 2
    assert counts["skip", "min_bundles", "skipped"] == 2
    assert cluster.serving_checker.faults == []


async def test_cold_neighbours_of_two_owners_first_come_together(
    idle_cluster: LeaderCluster,
) -> None:
    cluster = idle_cluster
    for broker_id, bundle in zip((A, B), RING.bundles, strict=False):
        await cluster.brokers[broker_id].acquire(bundle)
    async with cluster.term(B) as term:
        cycle = cycle_of(term)
        for _ in range(4):
            await cluster.synced(term)
            await cycle.once(cluster.rules)
    whole = RING.bundles[0].joined(RING.bundles[1])
    assert await cluster.owner(whole) in {A, B}
    assert kinds_and_reasons(cluster)[:3] == [
        ("skip", "hit_count", "skipped"),
        ("transfer", "cold", "done"),
        ("merge", "cold", "done"),
    ]
    assert cluster.serving_checker.faults == []
