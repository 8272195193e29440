import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, ParamSpec, TypeVar

import pytest

from broker_ctl.balancer.admin.views import overview
from broker_ctl.balancer.monitoring.snapshot_builder import SnapshotBuilder
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.model.broker import NO_CONSTRAINTS, BrokerUrls, Constraints
from broker_ctl.core.model.load import BrokerLoad, BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import ConnectionLoss, StoreError
from broker_ctl.lab.time import ManualClock
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
LARGE = Namespace("public", "large")

_P = ParamSpec("_P")
_T = TypeVar("_T")


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(4)


@pytest.fixture
async def term(cluster: LeaderCluster, ring: Ring) -> AsyncIterator[LeaderTerm]:
    """A owns the first two bundles, B the third."""
    for index, broker_id in enumerate((A, A, B)):
        await cluster.brokers[broker_id].acquire(ring.bundles[index])
    async with cluster.term(A) as running:
        await cluster.synced(running)
        yield running


async def test_the_view_joins_reports_rings_and_registrations(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    view = await term.snapshot_builder.build(draw_seed=7)
    assert (view.epoch, view.draw_seed) == (term.leadership.epoch, 7)
    assert {b: seen.owner for b, seen in view.bundles.items()} == {
        ring.bundles[0]: A,
        ring.bundles[1]: A,
        ring.bundles[2]: B,
    }
    assert view.brokers[A].owned == {ring.bundles[0], ring.bundles[1]}
    assert view.rings[ring.namespace].bundles == ring.bundles
    assert view.brokers[A].usage_ratio == pytest.approx(0.02)
    assert term.snapshot_builder.latest is view


async def test_a_draining_broker_is_seen_as_such(cluster: LeaderCluster, term: LeaderTerm) -> None:
    await cluster.brokers[B].registry.announce_drain()
    await eventually(lambda: not term.dependencies.can_receive(B))
    view = await term.snapshot_builder.build()
    assert view.brokers[B].is_draining
    assert view.receivers(60.0) == (A,)


async def test_a_bundle_that_two_report_is_whose_the_owner_node_says(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    moved = ring.bundles[0]
    stale = cluster.brokers[A].report().encode()
    await cluster.brokers[A].store.delete(paths.ownership(moved))
    cluster.serving_checker.ends(A, moved)
    await cluster.brokers[B].acquire(moved)
    await cluster.brokers[A].registry.publish(stale)
    await eventually(lambda: len(term.load_monitor.reporters()[moved]) == 2)
    view = await term.snapshot_builder.build()
    assert view.bundles[moved].owner == B


async def test_a_bundle_that_we_gave_away_is_asked_for_until_its_new_owner_reports_it(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    moved = ring.bundles[0]
    term.memory.record_assigned(moved, B)
    # Only A reports it, and the owner node still says A: the command had no effect.
    view = await term.snapshot_builder.build()
    assert view.bundles[moved].owner == A
    assert term.memory.get(moved).given_to == B


async def test_a_bundle_without_an_owner_is_free_since_it_was_noticed(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    await cluster.kill(B)
    await eventually(lambda: B not in term.dependencies.registry.peers)
    view = await term.snapshot_builder.build()
    free = ring.bundles[2]
    assert set(view.brokers) == {A}
    assert view.bundles[free].owner is None
    first_s = term.memory.get(free).free_since_s
    await term.snapshot_builder.build()
    assert first_s is not None
    assert term.memory.get(free).free_since_s == first_s
    assert term.memory.get(free).owner == B


async def test_a_split_by_whomever_is_noticed_and_dated(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    parent = ring.bundles[0]
    children = await cluster.brokers[A].split(parent)
    view = await term.snapshot_builder.build()
    assert parent not in view.bundles
    for child in children:
        assert view.bundles[child].last_split_s is not None
        assert view.bundles[child].owner == A


async def test_an_unregistered_broker_is_not_in_the_view_and_its_report_proves_no_ownership(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    """A report outlives its broker for a moment; and Pulsar's own brokers have no registration."""
    store, claimed = cluster.brokers[A].store, ring.bundles[3]
    lines = {str(claimed): BundleStats(msg_rate_in=1.0)}
    foreign = LocalBrokerData(BrokerUrls("j:8080"), BrokerLoad("j:8080", bundles=lines))
    await store.create(paths.load_report("j:8080"), foreign.encode())
    await eventually(lambda: claimed in term.load_monitor.loads)
    view = await term.snapshot_builder.build()
    assert set(view.brokers) == {A, B}
    assert view.bundles[claimed].owner is None


async def test_an_owner_node_that_nobody_can_read_keeps_its_bundle_out(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    torn = ring.bundles[0]
    term.memory.record_assigned(torn, B)
    await cluster.brokers[A].store.set(paths.ownership(torn), b"{}")
    view = await term.snapshot_builder.build()
    assert torn not in view.bundles


async def test_constraints_are_those_of_the_moment(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    assert (await term.snapshot_builder.build()).constraints is NO_CONSTRAINTS
    policies = Constraints(domain_of={A: "rack-1"})
    parts = replace(term.dependencies, constraints=lambda: policies)
    snapshot_builder = SnapshotBuilder(parts, term.leadership.epoch, term.load_monitor, term.memory)
    assert (await snapshot_builder.build()).constraints is policies


async def test_the_view_has_each_brokers_session_version_and_kinds_of_topics(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    report = LocalBrokerData.decode(paths.load_report(B), cluster.brokers[B].report().encode())
    newer = replace(
        report,
        load=replace(report.load, version="4.1", updated_ms=report.load.updated_ms + 1_000_000),
        persistent_topics=False,
    )
    await cluster.brokers[B].registry.publish(newer.encode())
    await eventually(lambda: term.load_monitor.reports[B].data.load.version == "4.1")
    seen = (await term.snapshot_builder.build()).brokers
    assert (seen[B].takes_persistent, seen[B].takes_non_persistent) == (False, True)
    assert (seen[A].takes_persistent, seen[B].load.version) == (True, "4.1")
    peers = term.dependencies.registry.peers
    assert {b: broker.session_id for b, broker in seen.items()} == {
        broker_id: peer.session_id for broker_id, peer in peers.items()
    }
    assert seen[A].session_id != seen[B].session_id


async def test_a_move_that_ends_while_the_view_is_taken_counts_as_going_on(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    """The owner of its bundle may have been read before the move ended."""
    moved, record = ring.bundles[0], term.memory
    record.splitting.add(moved)

    async def ends_meanwhile(bundle: Bundle) -> None:
        record.splitting.discard(moved)

    term.memory.record_assigned(ring.bundles[2], "nobody")
    parts = replace(term.dependencies, owner_of=ends_meanwhile)
    snapshot_builder = SnapshotBuilder(parts, term.leadership.epoch, term.load_monitor, term.memory)
    view = await snapshot_builder.build()
    assert moved not in record.splitting
    assert view.is_busy(moved)


async def test_other_tasks_get_their_turn_while_a_large_view_is_taken(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    """A heartbeat must not wait for ten thousand bundles."""
    ring = Ring.even(LARGE, 2000)
    lines = {str(bundle): BundleStats(msg_rate_in=1.0) for bundle in ring.bundles}
    report = LocalBrokerData.decode(paths.load_report(B), cluster.brokers[B].report().encode())
    load = replace(report.load, bundles=lines, updated_ms=report.load.updated_ms + 1_000_000)
    await cluster.brokers[B].registry.publish(replace(report, load=load).encode())
    await eventually(lambda: len(term.load_monitor.loads) > len(lines))
    ring_of = term.dependencies.ring_of

    async def rings(namespace: Namespace) -> Ring:
        return ring if namespace == LARGE else await ring_of(namespace)

    parts = replace(term.dependencies, ring_of=rings)
    snapshot_builder = SnapshotBuilder(parts, term.leadership.epoch, term.load_monitor, term.memory)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count(), name="count turns")
        view = await snapshot_builder.build()
        counting.cancel()
    assert len([bundle for bundle in view.bundles if bundle.namespace == LARGE]) == 2000
    # Five passes over the bundles, 256 of them a turn.
    assert turns >= 5 * 2000 // 256


@pytest.mark.parametrize("stats", [BundleStats(msg_throughput_in=1e308), BundleStats(topics=2**62)])
async def test_a_report_of_more_than_any_broker_has_does_not_end_the_term(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, stats: BundleStats
) -> None:
    """Sums of such numbers overflow; who can write into the store could end each leader."""
    report = LocalBrokerData.decode(paths.load_report(B), cluster.brokers[B].report().encode())
    lines = {str(bundle): stats for bundle in ring.bundles[2:]}
    load = replace(report.load, bundles=lines, updated_ms=report.load.updated_ms + 1_000_000)
    await cluster.brokers[B].registry.publish(replace(report, load=load).encode())
    await eventually(lambda: B not in term.load_monitor.reports)
    view = await term.snapshot_builder.build()
    assert set(view.brokers) == {A}
    # Its owner node says so.
    assert view.bundles[ring.bundles[2]].owner == B
    assert term.load_monitor.corrupt == 1


class Freed(str):
    """Notes the thread that frees it, with the bundle that it is the hot topic of."""

    __slots__ = ()
    threads: ClassVar[Counter[str]] = Counter()

    def __del__(self) -> None:
        self.threads[threading.current_thread().name.partition("_")[0]] += 1


@pytest.fixture
def freed(term: LeaderTerm, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    monkeypatch.setattr(term.memory, "hot_topic", lambda _: Freed())
    Freed.threads.clear()
    return Freed.threads


async def test_the_planners_thread_frees_a_view_that_was_used_for_longer(
    term: LeaderTerm, ring: Ring, freed: Counter[str]
) -> None:
    """The event loop would stop for tens of milliseconds where there are many bundles."""
    build = term.snapshot_builder.build
    # As a cycle that carries out its plan, or lookups.
    used = await build()
    for _ in range(3):
        await build()
    del used
    await build()
    await build()
    assert freed == {"planner": 4 * len(term.load_monitor.loads)}


async def test_the_planners_thread_frees_views_that_were_taken_at_the_same_time(
    term: LeaderTerm, ring: Ring, freed: Counter[str]
) -> None:
    for _ in range(3):
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(term.snapshot_builder.build(), name=f"build {number}")
    await term.snapshot_builder.build()
    # All but the newest two.
    assert freed == {"planner": 11 * len(term.load_monitor.loads)}


async def test_an_error_that_ends_a_view_is_freed_without_a_search(
    term: LeaderTerm, ring: Ring
) -> None:
    """The functions that it has passed know the owners of all bundles."""
    failed: list[weakref.ref[StoreError]] = []

    def lost() -> ConnectionLoss:
        error = ConnectionLoss("the test did it")
        failed.append(weakref.ref(error))
        return error

    async def fails(_: Bundle) -> None:
        raise lost()

    for bundle in ring.bundles[:3]:
        term.memory.record_assigned(bundle, "nobody")
    parts = replace(term.dependencies, owner_of=fails)
    snapshot_builder = SnapshotBuilder(parts, term.leadership.epoch, term.load_monitor, term.memory)
    gc.disable()
    try:
        with suppress(ConnectionLoss):
            await snapshot_builder.build()
        await eventually(lambda: all(error() is None for error in failed), 5.0)
    finally:
        gc.enable()
    assert len(failed) > 1


class SlowPlanner(WorkerThread):
    """Each computation takes a second."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("planner")
        self._clock = clock

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._clock.time_s += 1.0
        return await super().run(function, *args, **kwargs)


async def test_the_overview_says_when_its_facts_were_taken(
    cluster: LeaderCluster, ring: Ring
) -> None:
    clock = cluster.clock = ManualClock()
    parts = replace(cluster.dependencies(A), planner=SlowPlanner(clock))
    term = LeaderTerm.of(parts, await cluster.elect(A))
    await term.start()
    await cluster.synced(term)
    taken_ms = clock.wall_ms()
    await term.snapshot_builder.build()
    assert overview(term, {})["taken_at_ms"] == taken_ms < clock.wall_ms()
    await term.close()


async def test_a_report_that_is_replaced_while_a_view_is_taken_proves_no_ownership(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    """Otherwise the view and the memory would name A as owner of a bundle that it gave up."""
    moved, snapshot_builder = ring.bundles[0], term.snapshot_builder
    gathered = snapshot_builder._reporters

    async def gathered_too_early() -> Mapping[Bundle, str | None]:
        reporters = await gathered()
        await cluster.brokers[A].store.delete(paths.ownership(moved))
        cluster.serving_checker.ends(A, moved)
        await cluster.brokers[A].publish()
        await eventually(lambda: moved not in term.load_monitor.reports[A].lines)
        return reporters

    snapshot_builder._reporters = gathered_too_early  # type: ignore[method-assign]  # the race, made certain
    view = await snapshot_builder.build()
    assert view.bundles[moved].owner is None
    assert term.memory.get(moved).free_since_s is not None
