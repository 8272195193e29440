import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.core.model.load import BundleLoad, BundleStats, ResourceQuota
from broker_ctl.core.model.names import Ring
from broker_ctl.lab.time import ManualClock
from broker_ctl.store import paths
from broker_ctl.store.records.simple import LoadReport
from tests.support.clusters.in_memory_broker import InMemoryBroker, even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
RING = Ring.even(NAMESPACE, 4)
FIRST, SECOND, THIRD, FOURTH = RING.bundles


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def load_monitor(cluster: LeaderCluster, clock: ManualClock) -> AsyncIterator[LoadMonitor]:
    load_monitor = LoadMonitor(cluster.brokers[B].store, clock, rng=random.Random(1))
    await load_monitor.start()
    yield load_monitor
    await load_monitor.close()


async def report(broker: InMemoryBroker, updated_ms: int, **lines: float) -> None:
    """A report of bytes/s by the text of a bundle."""
    data = broker.report()
    stats = {key: even_traffic(bytes_s) for key, bytes_s in lines.items()}
    load = replace(data.load, bundles=stats, updated_ms=updated_ms)
    await broker.registry.publish(replace(data, load=load).encode())


def lines(**bytes_s: float) -> dict[str, float]:
    names = {"first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH}
    return {str(names[name]): value for name, value in bytes_s.items()}


async def heard(load_monitor: LoadMonitor, broker_id: str, updated_ms: int) -> None:
    def is_there() -> bool:
        known = load_monitor.reports.get(broker_id)
        return known is not None and known.data.load.updated_ms == updated_ms

    await eventually(is_there, what=f"report {updated_ms} of {broker_id}")


@pytest.mark.parametrize("turns", range(4))
async def test_an_end_that_is_cut_short_leaves_no_task_behind(
    cluster: LeaderCluster, clock: ManualClock, turns: int
) -> None:
    before = asyncio.all_tasks()
    load_monitor = LoadMonitor(cluster.brokers[B].store, clock, rng=random.Random(1))
    await load_monitor.start()
    closing = asyncio.get_running_loop().create_task(load_monitor.close(), name="close")
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    if turns:  # it had begun
        await eventually(lambda: asyncio.all_tasks() <= before)
    else:
        await load_monitor.close()


async def test_a_report_is_folded_once_whatever_else_changes(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    a, b = cluster.brokers[A], cluster.brokers[B]
    await report(a, 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    for updated_ms in range(20, 25):
        await report(b, updated_ms, **lines(second=5.0))
        await heard(load_monitor, B, updated_ms)
    assert load_monitor.load_of(FIRST).short.samples == 1
    assert load_monitor.load_of(SECOND).short.samples == 5
    await report(a, 11, **lines(first=200.0))
    await heard(load_monitor, A, 11)
    assert load_monitor.load_of(FIRST).short.samples == 2
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(150.0)


async def test_the_same_report_written_again_is_not_folded_again(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    await report(cluster.brokers[A], 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    await report(cluster.brokers[A], 10, **lines(first=900.0))
    await report(cluster.brokers[B], 10, **lines(second=1.0))
    await heard(load_monitor, B, 10)
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(100.0)


async def test_a_corrupt_report_is_skipped_and_counted(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    await cluster.brokers[A].store.set(paths.load_report(A), b"{not json")
    await report(cluster.brokers[B], 10, **lines(second=1.0))
    await heard(load_monitor, B, 10)
    await eventually(lambda: load_monitor.corrupt == 1)
    assert A not in load_monitor.reports
    await report(cluster.brokers[A], 11, **lines(first=1.0))
    await heard(load_monitor, A, 11)


async def test_a_line_that_names_no_bundle_is_skipped_and_the_rest_is_taken(
    cluster: LeaderCluster, load_monitor: LoadMonitor, caplog: pytest.LogCaptureFixture
) -> None:
    await report(cluster.brokers[A], 10, **{"no/bundle": 1.0}, **lines(first=2.0))
    await heard(load_monitor, A, 10)
    assert "skipped a line of the report of" in caplog.text
    assert load_monitor.corrupt == 1
    assert set(load_monitor.reports[A].lines) == {FIRST}


async def test_the_report_of_a_broker_that_left_is_gone_and_its_averages_stay(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    await report(cluster.brokers[A], 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    await cluster.kill(A)
    await eventually(lambda: A not in load_monitor.reports)
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(100.0)


async def test_the_age_of_a_report_counts_from_its_arrival_whatever_its_writer_thinks(
    cluster: LeaderCluster, load_monitor: LoadMonitor, clock: ManualClock
) -> None:
    clock.time_s = 5_000.0
    await report(cluster.brokers[A], 4_102_444_800_000, **lines(first=1.0))
    await heard(load_monitor, A, 4_102_444_800_000)
    assert load_monitor.reports[A].received_s == 5_000.0


async def test_a_report_goes_on_from_the_averages_of_an_earlier_leader(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    await report(cluster.brokers[A], 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    old = BundleLoad.unseen().fold(BundleStats(msg_throughput_in=7.0))
    load_monitor.seed({FIRST: old, SECOND: old})
    assert load_monitor.load_of(FIRST) == old.fold(even_traffic(100.0))
    assert load_monitor.load_of(SECOND) == old
    # The averages that began with a guess are measured by now: a second seed changes nothing.
    load_monitor.seed({FIRST: old})
    assert load_monitor.load_of(FIRST).short.samples == 2


async def test_a_bundle_without_an_owner_and_without_reports_is_forgotten_after_a_while(
    cluster: LeaderCluster, load_monitor: LoadMonitor, clock: ManualClock
) -> None:
    old = BundleLoad.unseen().fold(BundleStats(msg_throughput_in=7.0))
    load_monitor.seed({SECOND: old, THIRD: old})
    await report(cluster.brokers[A], 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    clock.time_s += 100.0
    load_monitor.record_owner(THIRD)
    load_monitor.forget_unresponsive(60.0)
    assert set(load_monitor.loads) == {FIRST, THIRD}


async def test_children_inherit_the_averages_of_a_bundle_that_was_split(
    load_monitor: LoadMonitor,
) -> None:
    load_monitor.seed(
        {FIRST: BundleLoad.unseen().fold(even_traffic(80.0, topics=8)), SECOND: _load()}
    )
    middle = FIRST.range.high // 2
    children = FIRST.cut((middle,))
    assert load_monitor.reconcile({NAMESPACE: RING.split(FIRST, (middle,))}) == {FIRST: children}
    assert set(load_monitor.loads) == {*children, SECOND}
    for child in children:
        assert load_monitor.load_of(child).short.throughput == pytest.approx(40.0)
        assert load_monitor.load_of(child).topics == 4
        # A guess: the first report replaces it.
        assert load_monitor.load_of(child).fold(
            even_traffic(10.0)
        ).short.throughput == pytest.approx(10)


async def test_bundles_of_a_namespace_that_is_gone_are_forgotten(load_monitor: LoadMonitor) -> None:
    load_monitor.seed({FIRST: _load()})
    assert load_monitor.reconcile({NAMESPACE: None}) == {}
    assert load_monitor.loads == {}


async def test_a_namespace_that_was_not_looked_at_is_left_alone(load_monitor: LoadMonitor) -> None:
    load_monitor.seed({FIRST: _load()})
    load_monitor.reconcile({})
    assert set(load_monitor.loads) == {FIRST}


def _load() -> BundleLoad:
    return BundleLoad.unseen().fold(even_traffic(1.0))


async def test_by_time_a_broker_that_reports_often_weighs_no_more(
    cluster: LeaderCluster, clock: ManualClock
) -> None:
    load_monitor = LoadMonitor(
        cluster.brokers[B].store, clock, sample_s=lambda: 60.0, rng=random.Random(1)
    )
    await load_monitor.start()
    await report(cluster.brokers[A], 10, **lines(first=100.0))
    await heard(load_monitor, A, 10)
    for number in range(1, 13):
        clock.time_s += 5.0
        await report(cluster.brokers[A], 10 + number, **lines(first=200.0))
        await heard(load_monitor, A, 10 + number)
    # One minute of 100 and one of 200, however many reports said so.
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(150.0)
    assert load_monitor.load_of(FIRST).long.samples == pytest.approx(2.0)
    await load_monitor.close()


async def test_a_quota_comes_before_the_defaults_and_after_averages(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    await report(cluster.brokers[A], 10, **lines(first=100.0, second=100.0, third=100.0))
    await heard(load_monitor, A, 10)
    assert set(load_monitor.guessed) == {FIRST, SECOND, THIRD}
    load_monitor.seed({THIRD: _load()})
    quota = ResourceQuota(1.0, 1.0, 500.0, 500.0, 1.0)
    load_monitor.initial_load({FIRST, SECOND}, {FIRST: quota, THIRD: quota, FOURTH: quota})
    # Ample history: a first sample of 100 after ten of 1000.
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(910.0)
    assert load_monitor.load_of(SECOND).short.throughput == pytest.approx(100.0)
    assert load_monitor.load_of(THIRD) == _load().fold(even_traffic(100.0))
    assert FOURTH not in load_monitor.loads
    assert not load_monitor.guessed


async def test_a_report_of_the_simple_manager_counts_as_well(
    cluster: LeaderCluster, load_monitor: LoadMonitor
) -> None:
    broker = cluster.brokers[A]
    load = replace(broker.report().load, bundles={str(FIRST): even_traffic(100.0)}, updated_ms=10)
    await broker.registry.publish(LoadReport(broker.urls, load).encode())
    await heard(load_monitor, A, 10)
    assert load_monitor.load_of(FIRST).short.throughput == pytest.approx(100.0)
    assert load_monitor.reports[A].data.load_manager.endswith("SimpleLoadManagerImpl")
