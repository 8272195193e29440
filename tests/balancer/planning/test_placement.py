import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo, Drain
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.errors import AuthorityLost, NoBroker
from broker_ctl.lab.time import ManualClock
from broker_ctl.store import paths
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C) as running:
        running.clock = clock
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(64)


@pytest.fixture
async def term(cluster: LeaderCluster, ring: Ring) -> AsyncIterator[LeaderTerm]:
    async with cluster.term(A) as running:
        await cluster.synced(running)
        yield running


async def term_under(cluster: LeaderCluster, constraints: Callable[[], Constraints]) -> LeaderTerm:
    """A term under policies that a test may change; its load monitor is the test's to close."""
    parts = replace(cluster.dependencies(A), constraints=constraints)
    term = LeaderTerm.of(parts, await cluster.elect(A))
    await term.load_monitor.start()
    await cluster.synced(term)
    return term


async def test_a_repeated_question_gets_the_same_answer(term: LeaderTerm, ring: Ring) -> None:
    bundle = ring.bundles[5]
    answers = {(await term.placements.place(bundle)).broker_id for _ in range(20)}
    assert len(answers) == 1
    assert set(term.placements.reserved) == {bundle}


async def test_a_burst_of_questions_is_spread_over_the_brokers(
    term: LeaderTerm, ring: Ring
) -> None:
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(term.placements.place(bundle), name=str(bundle))
            for bundle in ring.bundles[:60]
        ]
    counts = Counter(task.result().broker_id for task in asked)
    assert counts == {A: 20, B: 20, C: 20}


async def test_a_burst_of_bundles_without_a_report_is_spread_where_usages_differ(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    """Each would count as nothing, and every choice would see the same usage."""
    full = await term.placements._fresh(cluster.clock.now_s())
    uneven = {
        each: replace(broker, expected=replace(broker.expected, usage_ratio=0.2 + 0.01 * number))
        for number, (each, broker) in enumerate(sorted(full.brokers.items()))
    }
    term.placements._full = replace(full, brokers=uneven)
    term.placements._with_reservations = None
    chosen = [(await term.placements.place(each)).broker_id for each in ring.bundles]
    counts = Counter(chosen)
    # Two points of usage are four bundles that are expected to cause half a point each.
    assert max(counts.values()) - min(counts.values()) <= 5, counts


async def test_promises_outlast_a_new_view_until_the_target_reports_the_bundle(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    """Pulsar's leader drops them at the next report of any broker."""
    promised = {bundle: await term.placements.place(bundle) for bundle in ring.bundles[:2]}
    full = {choice.broker_id for choice in promised.values()}
    await cluster.publish()
    clock.time_s += 5.0
    (idle,) = {A, B, C} - full
    assert (await term.placements.place(ring.bundles[2])).broker_id == idle
    for bundle, choice in promised.items():
        assert (await term.placements.place(bundle)).broker_id == choice.broker_id


async def test_a_new_view_counts_all_promises_of_a_broker(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    for bundle in ring.bundles[:30]:
        await term.placements.place(bundle)
    await cluster.add(D)
    await cluster.synced(term)
    clock.time_s += 5.0
    chosen = [(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[30:40]]
    assert chosen == [D] * 10


async def test_a_report_that_has_the_bundle_takes_the_place_of_the_promise(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    bundle = ring.bundles[0]
    chosen = (await term.placements.place(bundle)).broker_id
    assert chosen is not None
    await cluster.brokers[chosen].acquire(bundle)
    await cluster.synced(term)
    clock.time_s += 5.0
    other = (await term.placements.place(ring.bundles[1])).broker_id
    assert bundle not in term.placements.reserved
    assert other != chosen


async def test_a_reservation_that_expired_is_made_again(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    bundle = ring.bundles[0]
    await term.placements.place(bundle)
    until_s = term.placements.reserved[bundle].until_s
    clock.time_s += cluster.rules.reservation_s / 2
    await term.placements.place(bundle)
    assert term.placements.reserved[bundle].until_s == until_s
    clock.time_s += cluster.rules.reservation_s
    await term.placements.place(bundle)
    assert term.placements.reserved[bundle].until_s > until_s


async def test_promises_of_a_broker_that_died_are_given_to_others_at_once(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    before = {b: (await term.placements.place(b)).broker_id for b in ring.bundles[:9]}
    assert B in before.values()
    await cluster.kill(B)
    await eventually(lambda: B not in term.dependencies.registry.peers)
    # The clock stands still: the view that choices are made on still has the broker.
    after = {b: (await term.placements.place(b)).broker_id for b in ring.bundles[:20]}
    assert set(after.values()) == {A, C}
    assert all(after[bundle] == chosen for bundle, chosen in before.items() if chosen != B)


async def test_a_draining_broker_receives_nothing(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    await cluster.brokers[B].registry.announce_drain()
    await eventually(lambda: not term.dependencies.can_receive(B))
    chosen = {(await term.placements.place(bundle)).broker_id for bundle in ring.bundles}
    assert chosen == {A, C}


async def test_a_broker_that_is_drained_between_two_choices_receives_nothing_more(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    before = {(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[:9]}
    assert before == {A, B, C}
    await term.dependencies.directives.begin_drain(B, Drain(AuditInfo(0), 4, 0.0))
    await eventually(lambda: not term.dependencies.can_receive(B))
    after = {(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[9:30]}
    assert after == {A, C}
    await term.dependencies.directives.end_drain(B)
    await eventually(lambda: term.dependencies.can_receive(B))
    again = [(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[30:37]]
    assert again == [B] * 7


async def test_a_broker_whose_drain_ends_receives_again_although_the_view_has_the_drain(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    await term.dependencies.directives.begin_drain(B, Drain(AuditInfo(0), 4, 0.0))
    await eventually(lambda: not term.dependencies.can_receive(B))
    before = {(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[:9]}
    assert before == {A, C}
    # The clock stands still: the next view of a large cluster may be minutes away.
    await term.dependencies.directives.end_drain(B)
    await eventually(lambda: term.dependencies.can_receive(B))
    after = [(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[9:12]]
    assert after == [B] * 3


async def test_with_nobody_left_there_is_no_broker(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    for broker in cluster.brokers.values():
        await broker.registry.announce_drain()
    await eventually(lambda: not any(map(term.dependencies.can_receive, (A, B, C))))
    with pytest.raises(NoBroker):
        await term.placements.place(ring.bundles[0])
    assert term.placements.reserved == {}


async def test_a_broker_that_was_asked_in_vain_is_not_chosen_again(
    term: LeaderTerm, ring: Ring
) -> None:
    bundle = ring.bundles[0]
    assert await term.placements.choose(bundle, frozenset({A, B})) == C
    with pytest.raises(NoBroker):
        await term.placements.choose(bundle, frozenset({A, B, C}))


async def test_views_for_lookups_take_up_a_small_part_of_the_time(
    cluster: LeaderCluster, ring: Ring, clock: ManualClock
) -> None:
    """A view of a large cluster takes long: a burst of lookups must not take one after another."""
    parts = cluster.dependencies(A)

    async def slow_ring_of(namespace: Namespace) -> Ring:
        clock.time_s += 2.0
        return await parts.ring_of(namespace)

    await cluster.brokers[B].acquire(ring.bundles[0])
    term = LeaderTerm.of(replace(parts, ring_of=slow_ring_of), await cluster.elect(A))
    await term.load_monitor.start()
    await cluster.synced(term)
    await term.placements.place(ring.bundles[1])
    first = term.snapshot_builder.latest
    clock.time_s += 30.0
    await term.placements.place(ring.bundles[2])
    assert term.snapshot_builder.latest is first
    clock.time_s += 30.0
    await term.placements.place(ring.bundles[3])
    assert term.snapshot_builder.latest is not first
    await term.load_monitor.close()


async def test_without_authority_nothing_is_promised(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    cluster.has_authority = False
    with pytest.raises(AuthorityLost):
        await term.placements.place(ring.bundles[0])


async def test_a_restarted_broker_has_promised_nothing(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    """It has the same id, but the reservations were made for its former session."""
    promised = {b: (await term.placements.place(b)).broker_id for b in ring.bundles[:9]}
    bundle = next(bundle for bundle, chosen in promised.items() if chosen == B)
    session_id = term.placements.reserved[bundle].session_id
    await cluster.kill(B)
    await eventually(lambda: B not in term.dependencies.registry.peers)
    await cluster.add(B)
    await eventually(lambda: B in term.dependencies.registry.peers)
    # The view still has the former session: nothing is reserved on it.
    again = {(await term.placements.place(b)).broker_id for b in [bundle, *ring.bundles[9:19]]}
    assert again == {A, C}
    await cluster.synced(term)
    clock.time_s += 60.0
    chosen = {b: (await term.placements.place(b)).broker_id for b in ring.bundles[20:50]}
    assert B in chosen.values()
    renewed = next(bundle for bundle, broker_id in chosen.items() if broker_id == B)
    assert term.placements.reserved[renewed].session_id != session_id


async def test_an_old_report_that_has_the_bundle_fulfils_no_promise(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, clock: ManualClock
) -> None:
    """The report of a broker that gave a bundle up has the bundle until the next report."""
    bundle = ring.bundles[0]
    await cluster.brokers[A].acquire(bundle)
    await cluster.synced(term)
    await cluster.brokers[A].store.delete(paths.ownership(bundle))
    cluster.serving_checker.ends(A, bundle)
    for broker_id in (B, C):
        await cluster.brokers[broker_id].registry.announce_drain()
    await eventually(
        lambda: not term.dependencies.can_receive(B) and not term.dependencies.can_receive(C)
    )
    assert (await term.placements.place(bundle)).broker_id == A
    assert bundle in term.load_monitor.reports[A].lines
    until_s = term.placements.reserved[bundle].until_s
    clock.time_s += 5.0
    await term.placements.place(bundle)
    assert term.placements.reserved[bundle].until_s == until_s
    await cluster.brokers[A].publish()
    await eventually(lambda: bundle not in term.load_monitor.reports[A].lines)
    await term.placements.place(bundle)
    assert term.placements.reserved[bundle].until_s == until_s


async def test_a_promise_is_made_only_where_the_policies_let_the_bundle_live(
    cluster: LeaderCluster, ring: Ring
) -> None:
    policy = IsolationPolicy("gold", (".*/.*",), ("b",), ("c",))
    term = await term_under(cluster, lambda: Constraints((policy,)))
    chosen = {(await term.placements.place(bundle)).broker_id for bundle in ring.bundles[:9]}
    assert chosen == {B}
    await cluster.kill(B)
    await eventually(lambda: B not in term.dependencies.registry.peers)
    # The view still has it: the secondary takes over nevertheless, and at once.
    assert (await term.placements.place(ring.bundles[0])).broker_id == C
    await cluster.kill(C)
    await eventually(lambda: C not in term.dependencies.registry.peers)
    with pytest.raises(NoBroker, match="neither primary nor secondary of policy gold"):
        await term.placements.place(ring.bundles[1])
    await term.load_monitor.close()


async def test_a_primary_that_is_drained_lets_secondaries_receive_at_once(
    cluster: LeaderCluster, ring: Ring
) -> None:
    policy = IsolationPolicy("gold", (".*/.*",), ("b",), ("c",))
    term = await term_under(cluster, lambda: Constraints((policy,)))
    assert (await term.placements.place(ring.bundles[0])).broker_id == B
    await term.dependencies.directives.begin_drain(B, Drain(AuditInfo(0), 4, 0.0))
    await eventually(lambda: not term.dependencies.can_receive(B))
    # The view still has it as a primary that could receive.
    assert (await term.placements.place(ring.bundles[1])).broker_id == C
    await term.load_monitor.close()


async def test_a_policy_that_is_set_while_a_view_is_taken_counts_for_the_placement(
    cluster: LeaderCluster, ring: Ring, clock: ManualClock
) -> None:
    gold = Constraints((IsolationPolicy("gold", (".*/.*",), ("b",)),))
    now = NO_CONSTRAINTS
    term = await term_under(cluster, lambda: now)
    promised = {bundle: await term.placements.place(bundle) for bundle in ring.bundles[:3]}
    assert {choice.broker_id for choice in promised.values()} == {A, B, C}
    build = term.snapshot_builder.build

    async def build_slowly(draw_seed: int = 0) -> ClusterView:
        nonlocal now
        view = await build(draw_seed)
        now = gold
        return view

    term.snapshot_builder.build = build_slowly  # type: ignore[method-assign]  # the race, made certain
    clock.time_s += 5.0
    assert (await term.placements.place(ring.bundles[3])).broker_id == B
    assert set(term.placements.reserved) == {ring.bundles[3]}
    await term.load_monitor.close()


async def test_a_policy_that_is_set_later_voids_the_promises_made_before(
    cluster: LeaderCluster, ring: Ring
) -> None:
    now = NO_CONSTRAINTS
    term = await term_under(cluster, lambda: now)
    bundles = ring.bundles[:9]
    assert {(await term.placements.place(bundle)).broker_id for bundle in bundles} == {A, B, C}
    # The clock stands still: neither the view nor the promises are old.
    now = Constraints((IsolationPolicy("gold", (".*/.*",), ("b",)),))
    assert {(await term.placements.place(bundle)).broker_id for bundle in bundles} == {B}
    await term.load_monitor.close()
