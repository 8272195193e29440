from collections.abc import AsyncIterator

import pytest

from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.load import BrokerLoad, BundleStats
from broker_ctl.core.namespace import Ring
from broker_ctl.leader.leading import Leading
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from tests.support.leader_cluster import LeaderCluster, running_cluster
from tests.support.waiting import eventually

A, B = "a:8080", "b:8080"


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(4)


@pytest.fixture
async def leading(cluster: LeaderCluster, ring: Ring) -> AsyncIterator[Leading]:
    """A owns the first two bundles, B the third."""
    for index, broker_id in enumerate((A, A, B)):
        await cluster.brokers[broker_id].acquire(ring.bundles[index])
    async with cluster.leading(A) as running:
        await cluster.synced(running)
        yield running


async def test_the_view_joins_reports_rings_and_registrations(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    view = await leading.survey.take(draw_seed=7)
    assert (view.epoch, view.draw_seed) == (leading.leadership.epoch, 7)
    assert {b: seen.owner for b, seen in view.bundles.items()} == {
        ring.bundles[0]: A,
        ring.bundles[1]: A,
        ring.bundles[2]: B,
    }
    assert view.brokers[A].owned == {ring.bundles[0], ring.bundles[1]}
    assert view.rings[ring.namespace].bundles == ring.bundles
    assert view.brokers[A].usage_ratio == pytest.approx(0.02)
    assert leading.survey.latest is view


async def test_a_draining_broker_is_seen_as_such(cluster: LeaderCluster, leading: Leading) -> None:
    await cluster.brokers[B].registry.announce_drain()
    await eventually(lambda: not leading.parts.can_receive(B))
    view = await leading.survey.take()
    assert view.brokers[B].is_draining
    assert view.receivers(60.0) == (A,)


async def test_a_bundle_that_two_report_is_whose_the_owner_node_says(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    moved = ring.bundles[0]
    stale = cluster.brokers[A].report().encode()
    await cluster.brokers[A].store.delete(paths.ownership(moved))
    cluster.witness.ends(A, moved)
    await cluster.brokers[B].acquire(moved)
    await cluster.brokers[A].registry.publish(stale)
    await eventually(lambda: len(leading.board.reporters()[moved]) == 2)
    view = await leading.survey.take()
    assert view.bundles[moved].owner == B


async def test_a_bundle_that_we_gave_away_is_asked_for_until_its_new_owner_reports_it(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    moved = ring.bundles[0]
    leading.memory.given(moved, B)
    # Only A reports it, and the owner node says A still: the order has come to nothing.
    view = await leading.survey.take()
    assert view.bundles[moved].owner == A
    assert leading.memory.of(moved).given_to == B


async def test_a_bundle_without_an_owner_is_free_since_it_was_noticed(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    await cluster.kill(B)
    await eventually(lambda: B not in leading.parts.registry.peers)
    view = await leading.survey.take()
    free = ring.bundles[2]
    assert set(view.brokers) == {A}
    assert view.bundles[free].owner is None
    first_s = leading.memory.of(free).free_since_s
    await leading.survey.take()
    assert first_s is not None
    assert leading.memory.of(free).free_since_s == first_s
    assert leading.memory.of(free).owner == B


async def test_a_split_by_whomever_is_noticed_and_dated(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    parent = ring.bundles[0]
    children = await cluster.brokers[A].split(parent)
    view = await leading.survey.take()
    assert parent not in view.bundles
    for child in children:
        assert view.bundles[child].last_split_s is not None
        assert view.bundles[child].owner == A


async def test_who_is_not_registered_is_no_broker_and_its_report_is_no_proof(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    """A report outlives its broker for a moment; and Pulsar's own brokers have no registration."""
    store, claimed = cluster.brokers[A].store, ring.bundles[3]
    lines = {str(claimed): BundleStats(msg_rate_in=1.0)}
    foreign = LocalBrokerData(BrokerUrls("j:8080"), BrokerLoad("j:8080", bundles=lines))
    await store.create(paths.load_report("j:8080"), foreign.encode())
    await eventually(lambda: claimed in leading.board.loads)
    view = await leading.survey.take()
    assert set(view.brokers) == {A, B}
    assert view.bundles[claimed].owner is None


async def test_an_owner_node_that_nobody_can_read_keeps_its_bundle_out(
    cluster: LeaderCluster, leading: Leading, ring: Ring
) -> None:
    torn = ring.bundles[0]
    leading.memory.given(torn, B)
    await cluster.brokers[A].store.set(paths.ownership(torn), b"{}")
    view = await leading.survey.take()
    assert torn not in view.bundles
