"""The leader's numbers through their instruments."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.core.cluster.directives import AuditInfo, Drain
from broker_ctl.core.model.load import ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Ring
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.core.strategies.simple import SimplePlacement
from broker_ctl.daemon.metrics import bind_directives, bind_leader
from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Instrument
from broker_ctl.tasks import TaskScope
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
BUNDLES = Ring.even(NAMESPACE, 8).bundles


def values(instrument: Instrument) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in instrument.samples()}


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        running.rules = replace(QUICK, placement=SimplePlacement())
        await running.create_namespace(8)
        yield running


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    async with TaskScope("test") as scope:
        yield scope


async def publish(cluster: LeaderCluster, broker_id: str, cpu: float) -> None:
    broker = cluster.brokers[broker_id]
    data = broker.report()
    usage = SystemUsage(cpu=ResourceUsage(cpu, 100.0))
    load = replace(data.load, usage=usage, updated_ms=data.load.updated_ms + 1000)
    await broker.registry.publish(replace(data, load=load).encode())


async def lead(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> asyncio.Task[None]:
    work = tasks.start(balancer.lead(await cluster.elect(A)), "lead")
    await eventually(lambda: balancer.is_leading)
    return work


async def test_gauges_of_the_leader_are_absent_elsewhere_and_its_counters_go_on(
    cluster: LeaderCluster, tasks: TaskScope
) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    leader, totals, simple = instruments.leader, instruments.totals, instruments.simple
    assert values(totals.unload_brokers) == {("bundleUnloading",): 0}
    nothing = {("assign", "Success"): 0, ("assign", "Empty"): 0, ("assign", "Skip"): 0}
    assert values(totals.assignments) == nothing
    assert values(leader.assignment_ms) == {(): 0}

    await publish(cluster, A, 60.0)
    await publish(cluster, B, 20.0)
    work = await lead(cluster, balancer, tasks)
    chosen = await balancer.place(BUNDLES[0])
    assert await balancer.place(BUNDLES[0]) == chosen
    assert values(totals.assignments) == nothing | {
        ("assign", "Success"): 1,
        ("assign", "Skip"): 1,
    }
    timed = values(leader.assignment_ms)
    assert timed.keys() == {("0.5",), ("0.99",), ("0.999",), ("1.0",), ()}
    assert timed[()] == 2
    assert values(leader.report_age_s).keys() == {(A,), (B,)}
    assert values(simple.load_rank) == {(A,): 60.0, (B,): 20.0}
    assert values(simple.quota_cpu) == {(A,): 0.0, (B,): 0.0}

    work.cancel()
    await asyncio.wait([work])
    assert values(simple.load_rank) == values(leader.report_age_s) == {}
    assert values(totals.assignments)["assign", "Success"] == 1
    assert values(leader.assignment_ms)[()] == 2
    await lead(cluster, balancer, tasks)
    await balancer.place(BUNDLES[1])
    assert values(totals.assignments)["assign", "Success"] == 2


async def test_a_move_relieves_its_source(cluster: LeaderCluster, tasks: TaskScope) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    await cluster.brokers[A].acquire(BUNDLES[0])
    await lead(cluster, balancer, tasks)
    await balancer.move(BUNDLES[0], B)
    assert values(instruments.totals.unload_brokers) == {("bundleUnloading",): 1}


async def test_the_moving_averages_of_a_leader_and_how_far_apart_they_are(
    cluster: LeaderCluster, tasks: TaskScope
) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    usage, stats = instruments.bundles.resource_usage, instruments.leader.usage_stats
    cluster.rules = replace(cluster.rules, shedding=ThresholdShedder())
    assert values(usage) == values(stats) == {}
    await publish(cluster, A, 60.0)
    await publish(cluster, B, 20.0)
    work = await lead(cluster, balancer, tasks)
    await eventually(lambda: values(usage))
    averages = values(usage)
    assert averages == {
        ("loadBalancing", A, "max_ema"): pytest.approx(0.6),
        ("loadBalancing", B, "max_ema"): pytest.approx(0.2),
    }
    assert values(stats) == {
        ("loadBalancing", "max_ema", "avg"): pytest.approx(0.4),
        ("loadBalancing", "max_ema", "std"): pytest.approx(0.2),
    }
    work.cancel()
    await asyncio.wait([work])
    assert values(usage) == values(stats) == {}


async def test_brokers_over_their_limits_are_counted(
    cluster: LeaderCluster, tasks: TaskScope
) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    limits = BrokerLimits.parse(f"{re.escape(A)} usage=50; {re.escape(B)} usage=30")
    rules = replace(cluster.rules.placement_rules, limits=limits)
    cluster.rules = replace(cluster.rules, placement_rules=rules)
    await publish(cluster, A, 60.0)
    await publish(cluster, B, 20.0)
    assert values(instruments.advice.brokers_over_limits) == {(): 0}
    await lead(cluster, balancer, tasks)
    await eventually(lambda: values(instruments.advice.brokers_over_limits) == {(): 1})


async def test_the_recommended_number_of_brokers_follows_the_load(
    cluster: LeaderCluster, tasks: TaskScope
) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    await publish(cluster, A, 60.0)
    await publish(cluster, B, 20.0)
    assert values(instruments.advice.recommended_brokers) == {(): 0}
    await lead(cluster, balancer, tasks)
    await eventually(lambda: values(instruments.advice.recommended_brokers) == {(): 3})
    # 60 and 20 of 100 each: one broker would carry 80.
    assert values(instruments.advice.usage_after_loss) == {("broker",): pytest.approx(0.8)}


async def test_bundles_of_one_hot_topic_are_counted_and_listed(
    cluster: LeaderCluster, tasks: TaskScope
) -> None:
    instruments, balancer = Instruments(), LoadBalancer(cluster.dependencies(A))
    bind_leader(instruments, balancer, cluster.brokers[A].moves)
    cluster.rules = replace(cluster.rules, splitting=SplitRules(max_share_ratio=0.1))
    bundle = Ring.even(NAMESPACE, 8).bundles[0]
    owner = cluster.brokers[A]
    await owner.acquire(bundle)
    report = owner.report()
    usage = SystemUsage(cpu=ResourceUsage(50.0, 100.0))
    lines = {str(bundle): even_traffic(5e8, topics=1)}
    load = replace(report.load, bundles=lines, usage=usage)
    await owner.registry.publish(replace(report, load=load).encode())
    assert values(instruments.advice.hot_topic_bundles) == {(): 0}
    await lead(cluster, balancer, tasks)
    await eventually(lambda: values(instruments.advice.hot_topic_bundles) == {(): 1})
    (row,) = balancer.overview()["hot_topics"]
    assert row["bundle"] == str(bundle)
    assert row == balancer.explain(str(bundle))["hot_topic"]


async def test_directives_of_operators_are_shown_by_every_broker(cluster: LeaderCluster) -> None:
    instruments, directives = Instruments(), cluster.brokers[B].directives
    bind_directives(instruments, directives)
    paused, drained = instruments.leader.is_paused, instruments.leader.drained_brokers
    assert (values(paused), values(drained)) == ({(): 0}, {(): 0})
    await cluster.brokers[A].directives.begin_pause(AuditInfo(1))
    await cluster.brokers[A].directives.begin_drain(A, Drain(AuditInfo(1), 0, 0.0))
    await eventually(lambda: (values(paused), values(drained)) == ({(): 1}, {(): 1}))
