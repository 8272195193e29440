import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.core.cluster.decisions import Decision, Reason, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Ring
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
BUNDLE = Ring.even(NAMESPACE, 8).bundles[0]


class SlowShedder(Memoryless):
    """The first call lasts until ``may_end`` is set, and proposes a move."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.calls = self.running = self.most = 0

    def shed(self, view: ClusterView, memory: NoMemory, rules: SheddingRules) -> Sequence[Decision]:
        del view, memory, rules
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        is_first = self.calls == 1
        self.may_end.wait()
        self.running -= 1
        return [Unload(BUNDLE, A, Reason.ADMIN, "slow")] if is_first else []


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        await running.create_namespace(8)
        await running.brokers[A].acquire(BUNDLE)
        yield running


async def test_a_plan_that_outlives_its_term_is_dropped_and_delays_the_next_one(
    cluster: LeaderCluster,
) -> None:
    slow = SlowShedder()
    cluster.rules = replace(QUICK, shedding=slow)
    balancer = LoadBalancer(cluster.dependencies(A))
    balancer.start()
    try:
        async with TaskScope("first term") as term:
            term.start(balancer.lead(await cluster.elect(A)), "lead")
            await eventually(lambda: slow.calls == 1)
        async with TaskScope("second term") as term:
            term.start(balancer.lead(await cluster.elect(A)), "lead")
            await eventually(lambda: balancer.is_leading)
            await cluster.publish()
            assert slow.calls == slow.running == 1
            slow.may_end.set()
            await eventually(lambda: slow.calls > 2)
    finally:
        slow.may_end.set()
        balancer.close()
    assert slow.most == 1
    assert cluster.journal.recent(50) == []
    assert BUNDLE in cluster.brokers[A].serving
