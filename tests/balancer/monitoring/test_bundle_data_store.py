from collections.abc import AsyncIterator

import pytest

from broker_ctl.balancer.monitoring.bundle_data_store import BundleDataStore, read_bundle_data
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.model.load import BundleLoad, BundleStats
from broker_ctl.core.model.names import Ring
from broker_ctl.errors import Fenced
from broker_ctl.store import paths
from broker_ctl.store.records.load import BundleData, TimeAverageBrokerData
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(200)


@pytest.fixture
async def term(cluster: LeaderCluster, ring: Ring) -> AsyncIterator[LeaderTerm]:
    async with cluster.term(A) as running:
        yield running


def quotas(term: LeaderTerm) -> BundleDataStore:
    return BundleDataStore(term.dependencies, term.leadership, term.load_monitor, {})


async def test_the_next_leader_reads_the_averages_that_a_leader_wrote(
    term: LeaderTerm, ring: Ring
) -> None:
    loads = {
        bundle: BundleLoad.unseen().fold(BundleStats(msg_rate_in=float(index), topics=index))
        for index, bundle in enumerate(ring.bundles)
    }
    term.load_monitor.seed(loads)
    await quotas(term).write(is_full=True)
    assert await read_bundle_data(term.dependencies.store) == loads


async def test_bundles_that_nobody_measured_are_not_written(term: LeaderTerm, ring: Ring) -> None:
    term.load_monitor.seed({ring.bundles[0]: BundleLoad.unseen()})
    await quotas(term).write(is_full=True)
    assert await read_bundle_data(term.dependencies.store) == {}


async def test_between_full_turns_only_new_bundles_are_written(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    bundle = ring.bundles[0]
    await cluster.brokers[A].acquire(bundle)
    await cluster.synced(term)
    writer = quotas(term)
    await writer.write(is_full=False)
    first = (await read_bundle_data(term.dependencies.store))[bundle]
    await cluster.brokers[A].publish()
    await eventually(lambda: term.load_monitor.load_of(bundle) != first)
    await writer.write(is_full=False)
    assert (await read_bundle_data(term.dependencies.store))[bundle] == first
    await writer.write(is_full=True)
    assert (await read_bundle_data(term.dependencies.store))[bundle] == term.load_monitor.load_of(
        bundle
    )


async def test_the_node_of_a_forgotten_bundle_is_deleted(term: LeaderTerm, ring: Ring) -> None:
    kept, gone = ring.bundles[:2]
    load = BundleLoad.unseen().fold(BundleStats(msg_rate_in=1.0))
    term.load_monitor.seed({kept: load, gone: load})
    writer = quotas(term)
    await writer.write(is_full=True)
    term.load_monitor.reconcile(
        {ring.namespace: Ring(ring.namespace, (0, kept.range.high, 2**32 - 1), 1)}
    )
    await writer.write(is_full=False)
    assert set(await read_bundle_data(term.dependencies.store)) == {kept}


async def test_nodes_that_came_or_went_meanwhile_do_not_stop_a_write(
    term: LeaderTerm, ring: Ring
) -> None:
    first, second = ring.bundles[:2]
    store, load = term.dependencies.store, BundleLoad.unseen().fold(BundleStats(msg_rate_in=1.0))
    await store.create(paths.bundle_data(first), b"{}", make_parents=True)
    term.load_monitor.seed({first: load, second: load})
    writer = BundleDataStore(term.dependencies, term.leadership, term.load_monitor, {second: load})
    later = BundleLoad.unseen().fold(BundleStats(msg_rate_in=2.0))
    term.load_monitor.reconcile({ring.namespace: None})
    term.load_monitor.seed({first: later, second: later})
    await writer.write(is_full=True)
    assert await read_bundle_data(store) == {first: later, second: later}


async def test_a_deposed_leader_writes_nothing(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    term.load_monitor.seed(
        {ring.bundles[0]: BundleLoad.unseen().fold(BundleStats(msg_rate_in=1.0))}
    )
    await cluster.elect(B)
    with pytest.raises(Fenced):
        await quotas(term).write(is_full=True)
    assert await read_bundle_data(term.dependencies.store) == {}


async def test_brokers_get_the_sums_of_their_bundles_and_dead_ones_lose_their_node(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    store, bundle = term.dependencies.store, ring.bundles[0]
    await cluster.brokers[B].acquire(bundle)
    await cluster.synced(term)
    writer = quotas(term)
    await writer.write(is_full=True)
    node = await store.get(paths.broker_time_average(B))
    assert node is not None
    average = TimeAverageBrokerData.decode(node.path, node.data)
    assert average.short_msg_throughput_in == pytest.approx(5e6)
    assert await store.children(paths.BROKER_TIME_AVERAGES) == [A, B]
    await cluster.kill(B)
    await eventually(lambda: B not in term.load_monitor.reports)
    await writer.write(is_full=True)
    assert await store.children(paths.BROKER_TIME_AVERAGES) == [A]


async def test_a_broker_without_a_node_gets_one_before_the_first_full_turn(
    cluster: LeaderCluster, term: LeaderTerm, ring: Ring
) -> None:
    """Pulsar's own monitor-brokers ends at a broker that has none."""
    store, path = term.dependencies.store, paths.broker_time_average(B)
    await cluster.brokers[B].acquire(ring.bundles[0])
    await cluster.synced(term)
    writer = quotas(term)
    await writer.write(is_full=False)
    assert await store.children(paths.BROKER_TIME_AVERAGES) == [A, B]
    first = await store.get(path)
    assert first is not None
    await writer.write(is_full=False)
    again = await store.get(path)
    assert again is not None
    assert again.stat.version == first.stat.version
    # A broker that joins later; nodes of others stay until the full turn.
    await store.delete(path)
    await store.create(paths.broker_time_average("gone:1"), b"{}")
    await writer.write(is_full=False)
    assert await store.children(paths.BROKER_TIME_AVERAGES) == [A, B, "gone:1"]


async def test_averages_that_do_not_decode_are_left_out(term: LeaderTerm, ring: Ring) -> None:
    good, torn = ring.bundles[:2]
    store, load = term.dependencies.store, BundleLoad.unseen().fold(BundleStats(msg_rate_in=1.0))
    await store.create(paths.bundle_data(good), BundleData(load).encode(), make_parents=True)
    await store.create(paths.bundle_data(torn), b"torn")
    assert await read_bundle_data(store) == {good: load}
