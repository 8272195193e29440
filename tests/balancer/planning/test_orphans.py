from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.monitoring.absence_monitor import StabilityGate
from broker_ctl.balancer.planning.orphans import Orphans
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.balancer.statistics import offline_bundles
from broker_ctl.core.model.load import BundleLoad
from broker_ctl.core.model.names import Ring
from broker_ctl.errors import PeerRefused
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
BUSY = BundleLoad.unseen().fold(even_traffic(1e6))
QUIET = BundleLoad.unseen().fold(even_traffic(0.0))


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C) as running:
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(8)


@pytest.fixture
async def term(cluster: LeaderCluster, ring: Ring) -> AsyncIterator[LeaderTerm]:
    """B owns the first three bundles, A the fourth."""
    for index, broker_id in enumerate((B, B, B, A)):
        await cluster.brokers[broker_id].acquire(ring.bundles[index])
    async with cluster.term(A) as running:
        await cluster.synced(running)
        yield running


@pytest.fixture
async def orphans(term: LeaderTerm) -> AsyncIterator[None]:
    stability_gate = StabilityGate(term.dependencies.store, term.dependencies.clock)
    stability_gate.start()
    async with TaskScope("test") as tasks:
        tasks.start(Orphans(term, stability_gate).run(), "orphans")
        yield
    stability_gate.close()


async def test_bundles_of_a_broker_that_died_are_served_again_without_a_lookup(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, orphans: None
) -> None:
    began_s = term.dependencies.clock.now_s()
    await cluster.kill(B)

    async def is_served() -> bool:
        owners = [await cluster.owner(bundle) for bundle in ring.bundles[:3]]
        return all(owner in {A, C} for owner in owners)

    await eventually(is_served)
    assert term.dependencies.clock.now_s() - began_s >= cluster.rules.reclaim_grace_s
    assert {entry.decision.kind for entry in cluster.journal.recent(10)} == {"assign"}
    assert cluster.serving_checker.faults == []
    # A bundle that never had an owner is assigned by the first lookup, not by the leader.
    assert await cluster.owner(ring.bundles[7]) is None


async def test_children_of_a_split_whose_owner_died_before_it_reported_them_are_placed_too(
    cluster: LeaderCluster,
    term: LeaderTerm,
    ring: Ring,
    orphans: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = ring.bundles[0]
    owner = cluster.brokers[B]

    async def silent() -> None:
        """It dies before its next report is due."""

    monkeypatch.setattr(owner, "publish", silent)
    children = await owner.split(parent)
    await cluster.kill(B)

    async def is_served() -> bool:
        owners = [await cluster.owner(bundle) for bundle in (*children, *ring.bundles[1:3])]
        return all(one in {A, C} for one in owners)

    await eventually(is_served)
    await eventually(lambda: offline_bundles(term) == 0)
    assert cluster.serving_checker.faults == []


async def test_the_bundles_that_are_placed_are_those_counted_as_offline(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    given_up = ring.bundles[3]
    await cluster.brokers[A].store.delete(paths.ownership(given_up))
    cluster.serving_checker.ends(A, given_up)
    await cluster.publish()
    await cluster.kill(B)
    await eventually(lambda: not term.dependencies.can_receive(B))
    await term.snapshot_builder.build()
    assert offline_bundles(term) == 3
    stability_gate = StabilityGate(term.dependencies.store, term.dependencies.clock)
    async with TaskScope("test") as tasks:
        tasks.start(Orphans(term, stability_gate).run(), "orphans")
        await eventually(lambda: offline_bundles(term) == 0)
    assert await cluster.owner(given_up) is None


async def test_a_receiver_that_must_wait_is_asked_again(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, orphans: None
) -> None:
    refusal = PeerRefused("BundleReclaimable", "its owner may come back")
    for broker_id in (A, C):
        cluster.peers.refusals[broker_id, "acquire"] += [refusal] * 2
    await cluster.kill(B)

    async def is_served() -> bool:
        owners = [await cluster.owner(bundle) for bundle in ring.bundles[:3]]
        return None not in owners

    await eventually(is_served)


async def test_a_bundle_that_its_living_owner_gave_up_is_left_to_lookups(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, orphans: None
) -> None:
    given_up = ring.bundles[3]
    await cluster.brokers[A].store.delete(paths.ownership(given_up))
    cluster.serving_checker.ends(A, given_up)
    await cluster.publish()
    await cluster.kill(B)

    async def is_served() -> bool:
        owners = [await cluster.owner(bundle) for bundle in ring.bundles[:3]]
        return None not in owners

    await eventually(is_served)
    assert await cluster.owner(given_up) is None


async def test_a_new_leader_finds_orphans_by_the_averages_of_the_old_one(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    busy, quiet = ring.bundles[5:7]
    term.load_monitor.seed({busy: BUSY, quiet: QUIET})
    stability_gate = StabilityGate(term.dependencies.store, term.dependencies.clock)
    async with TaskScope("test") as tasks:
        tasks.start(Orphans(term, stability_gate).run(), "orphans")

        async def is_served() -> bool:
            return await cluster.owner(busy) is not None

        await eventually(is_served)
    assert await cluster.owner(quiet) is None


async def test_after_trouble_of_our_own_nobody_is_taken_for_dead_too_soon(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, orphans: None
) -> None:
    store = cluster.brokers[A].store
    store.disconnect()
    store.reconnect()
    await store.wait_connected()
    reconnected_s = term.dependencies.clock.now_s()
    await cluster.kill(B)

    async def is_served() -> bool:
        return await cluster.owner(ring.bundles[0]) is not None

    await eventually(is_served)
    quiet_s = term.dependencies.clock.now_s() - reconnected_s
    assert quiet_s >= store.session_timeout_s * 0.9


async def test_steadiness_counts_from_the_last_trouble(cluster: LeaderCluster) -> None:
    store = cluster.brokers[A].store
    stability_gate = StabilityGate(store, cluster.clock)
    stability_gate.start()
    assert stability_gate.remaining_s() == 0.0
    store.disconnect()
    assert stability_gate.remaining_s() == store.session_timeout_s
    store.reconnect()
    await store.wait_connected()
    assert 0.0 < stability_gate.remaining_s() <= store.session_timeout_s
    await stability_gate.wait_stable()
    assert stability_gate.remaining_s() == 0.0
    stability_gate.close()


async def test_with_nobody_to_take_them_orphans_wait(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring, orphans: None
) -> None:
    cluster.rules = replace(cluster.rules, reclaim_grace_s=0.0)
    for broker_id in (A, C):
        await cluster.brokers[broker_id].registry.announce_drain()
    await eventually(lambda: not any(map(term.dependencies.can_receive, (A, C))))
    await cluster.kill(B)
    await eventually(lambda: term.memory.get(ring.bundles[0]).free_since_s is not None)
    assert "acquire" not in " ".join(cluster.peers.sent)
    late = await cluster.add("d:8080")

    await eventually(lambda: len(late.serving) >= 3)
