"""Load balancers of a cluster in memory, of which one leads after the other, in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import LeaderCluster
from tests.support.time.waiting import eventually


@asynccontextmanager
async def leading_at(cluster: LeaderCluster, broker_id: str) -> AsyncIterator[LoadBalancer]:
    """A load balancer that leads until the block ends; it is cut off as by a lost session."""
    balancer = LoadBalancer(cluster.dependencies(broker_id))
    balancer.start()
    try:
        async with TaskScope("leading") as tasks:
            tasks.start(balancer.lead(await cluster.elect(broker_id)), "lead")
            await eventually(lambda: balancer.is_leading)
            await _has_reports(cluster, balancer)
            yield balancer
    finally:
        balancer.close()


async def _has_reports(cluster: LeaderCluster, balancer: LoadBalancer) -> None:
    term = balancer.term
    assert term is not None
    await eventually(lambda: term.load_monitor.reports.keys() >= cluster.brokers.keys())
