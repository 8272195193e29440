from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.monitoring.bundle_data_store import (
    BundleDataStore,
    read_default_quota,
    read_quotas,
)
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.load import BundleStats, ResourceQuota, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Ring
from broker_ctl.core.rules.leader_rules import SimpleRules, SimpleStrategy, SplitRules
from broker_ctl.core.strategies.simple import SimplePlacement, SimpleShedder
from broker_ctl.lab.time import ManualClock
from broker_ctl.store import paths
from broker_ctl.store.records.simple import decode_quota, encode_quota
from tests.support.clusters.in_memory_broker import InMemoryBroker, even_traffic
from tests.support.clusters.leader_cluster import QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leader_cycles import cycle_of
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
SIMPLE = replace(
    QUICK, placement=SimplePlacement(), shedding=SimpleShedder(), splitting=SplitRules()
)
QUOTA = ResourceQuota(100.0, 100.0, 200_000.0, 200_000.0, 50.0)


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C) as running:
        running.rules = SIMPLE
        yield running


@pytest.fixture
async def ring(cluster: LeaderCluster) -> Ring:
    return await cluster.create_namespace(8)


async def publish(
    broker: InMemoryBroker, updated_ms: int, cpu: float, traffic: BundleStats | None = None
) -> None:
    data = broker.report()
    usage = SystemUsage(cpu=ResourceUsage(cpu, 100.0))
    lines = dict.fromkeys(data.load.bundles, traffic or even_traffic(1e6))
    load = replace(data.load, usage=usage, bundles=lines, updated_ms=updated_ms)
    await broker.registry.publish(replace(data, load=load).encode())


async def heard(term: LeaderTerm, broker_id: str, updated_ms: int) -> None:
    def is_there() -> bool:
        report = term.load_monitor.reports.get(broker_id)
        return report is not None and report.data.load.updated_ms == updated_ms

    await eventually(is_there)


def rules_of(term: LeaderTerm) -> tuple[LeaderRules, SimplePlacement]:
    rules = term.dependencies.rules()
    assert isinstance(rules.placement, SimplePlacement)
    return rules, rules.placement


async def test_the_ordinary_leader_sheds_by_the_simple_managers_rules(
    cluster: LeaderCluster, ring: Ring
) -> None:
    for bundle in ring.bundles[:4]:
        await cluster.brokers[A].acquire(bundle)
    await cluster.brokers[B].acquire(ring.bundles[4])
    async with cluster.term(A) as term:
        for number, (broker_id, cpu) in enumerate(((A, 95.0), (B, 70.0), (C, 10.0))):
            await publish(cluster.brokers[broker_id], 1000 + number, cpu)
            await heard(term, broker_id, 1000 + number)
        cycle = cycle_of(term)
        plan = await cycle.once(term.dependencies.rules(), is_split_due=False)
        (decision,) = plan.decisions
        assert decision.reason is Reason.OVERLOADED
        assert decision.to_row()["destination"] == C
        assert cluster.brokers[C].serving.keys() == set(decision.bundles)
        # The broker has not reported since: what left counts as gone.
        plan = await cycle.once(term.dependencies.rules(), is_split_due=False)
        assert plan.decisions == ()


async def test_quotas_are_learnt_from_reports_and_kept_for_the_next_leader(
    cluster: LeaderCluster, ring: Ring
) -> None:
    clock = ManualClock()
    cluster.clock = clock
    bundle = ring.bundles[0]
    await cluster.brokers[A].acquire(bundle)
    async with cluster.term(B) as term:
        simple = term.load_monitor.simple
        assert simple is not None
        await cluster.synced(term)
        simple.initial_load({bundle: QUOTA})
        traffic = BundleStats(200.0, 100.0, 200_000.0, 200_000.0)
        await publish(cluster.brokers[A], 2000, 10.0, traffic)
        await heard(term, A, 2000)
        clock.time_s += 15 * 60.0
        await publish(cluster.brokers[A], 2001, 10.0, traffic)
        await heard(term, A, 2001)
        assert simple.quotas[bundle].msg_rate_in == pytest.approx(150.0)
        _, placement = rules_of(term)
        assert placement.book.allocated[A] == simple.quotas[bundle]
        writer = BundleDataStore(term.dependencies, term.leadership, term.load_monitor, {})
        await writer.write(is_full=True)
        store = term.dependencies.store
        node = await store.get(paths.resource_quota(bundle))
        assert node is not None
        assert decode_quota(node.path, node.data) == simple.quotas[bundle]
        assert await read_quotas(store, [bundle]) == {bundle: simple.quotas[bundle]}
        assert await read_default_quota(store) == simple.default


async def test_an_operator_overrides_thresholds_while_the_leader_leads(
    cluster: LeaderCluster, ring: Ring
) -> None:
    async with cluster.term(A) as term:
        store = term.dependencies.store
        rules, placement = rules_of(term)
        assert placement.rules == SimpleRules()
        node = f"{paths.SIMPLE_SETTINGS}/overload_threshold"
        await store.create(node, b'{"overloadThreshold":"70"}', make_parents=True)
        await store.create(
            f"{paths.SIMPLE_SETTINGS}/strategy", b'{"loadBalancerStrategy":"leastMsgPerSecond"}'
        )
        await store.create(
            f"{paths.SIMPLE_SETTINGS}/auto_bundle_split_enabled",
            b'{"autoBundleSplitEnabled":"false"}',
        )
        await store.create(f"{paths.SIMPLE_SETTINGS}/load_factor_cpu", b'{"loadFactorCPU":"high"}')
        expected = SimpleRules(70.0, strategy=SimpleStrategy.LEAST_MSG_RATE, is_splitting=False)
        await eventually(lambda: rules_of(term)[1].rules == expected)
        rules, _ = rules_of(term)
        assert rules.splitting is None
        assert rules.shedding == SimpleShedder(expected)
        await store.delete(node)
        await eventually(lambda: rules_of(term)[1].rules.overload_percent == 85.0)
    assert ring.bundles


async def test_with_another_load_manager_nothing_of_it_is_kept(cluster: LeaderCluster) -> None:
    cluster.rules = QUICK
    async with cluster.term(A) as term:
        assert term.load_monitor.simple is None
        assert term.dependencies.rules() is QUICK


async def test_quotas_are_read_where_there_are_any_also_where_pulsar_2_9_put_them(
    cluster: LeaderCluster, ring: Ring
) -> None:
    store = cluster.brokers[A].store
    first, second, third, fourth = ring.bundles[:4]
    assert await read_quotas(store, ring.bundles) == {}
    assert await read_default_quota(store) is None
    await store.create(paths.resource_quota(first), encode_quota(QUOTA), make_parents=True)
    old = paths.old_resource_quota(second)
    await store.create(old, encode_quota(QUOTA), make_parents=True)
    await store.create(paths.resource_quota(third), b"torn")
    await store.create(paths.resource_quota(fourth), b"")
    await store.create(paths.DEFAULT_RESOURCE_QUOTA, encode_quota(QUOTA))
    assert await read_quotas(store, ring.bundles) == {first: QUOTA, second: QUOTA}
    assert await read_quotas(store, [third]) == {}
    assert await read_default_quota(store) == QUOTA


async def test_a_leader_looks_for_the_quotas_of_bundles_without_averages(
    cluster: LeaderCluster, ring: Ring
) -> None:
    cluster.rules = QUICK
    bundle = ring.bundles[0]
    store = cluster.brokers[A].store
    await store.create(paths.resource_quota(bundle), encode_quota(QUOTA), make_parents=True)
    await cluster.brokers[A].acquire(bundle)
    async with cluster.term(B) as term:
        await cluster.synced(term)
        writer = BundleDataStore(term.dependencies, term.leadership, term.load_monitor, {})
        await writer.refresh_quotas()
        assert term.load_monitor.load_of(bundle).long.samples == 1000
        assert not term.load_monitor.guessed


async def test_the_view_of_a_plan_does_not_change_while_reports_are_read(
    cluster: LeaderCluster, ring: Ring
) -> None:
    for bundle in ring.bundles[:4]:
        await cluster.brokers[A].acquire(bundle)
    async with cluster.term(A) as term:
        await publish(cluster.brokers[A], 3000, 95.0)
        await heard(term, A, 3000)
        view, rules = await term.snapshot_builder.build(), term.dependencies.rules()
        before = repr((view, rules))
        for number, bundle in enumerate(ring.bundles[4:]):
            term.memory.record_unload(bundle)
            term.memory.record_move(bundle, 1e6)
            term.memory.splitting.add(bundle)
            await cluster.brokers[B].acquire(bundle)
            await cluster.brokers[A].acquire(ring.bundles[number])
        await cluster.kill(C)
        for broker_id in (A, B):
            await publish(cluster.brokers[broker_id], 3001, 10.0, even_traffic(9e6))
            await heard(term, broker_id, 3001)
        later = repr((await term.snapshot_builder.build(), term.dependencies.rules()))
        assert repr((view, rules)) == before
        assert later != before
