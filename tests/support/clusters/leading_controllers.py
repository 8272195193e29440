"""Controllers of a cluster in memory, of which one leads after the other, in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import LeaderCluster
from tests.support.time.waiting import eventually


@asynccontextmanager
async def leading_at(cluster: LeaderCluster, broker_id: str) -> AsyncIterator[LoadBalancer]:
    """A controller that leads until the block ends; it is cut off as by a lost session."""
    controller = LoadBalancer(cluster.dependencies(broker_id))
    controller.start()
    try:
        async with TaskScope("leading") as tasks:
            tasks.start(controller.lead(await cluster.elect(broker_id)), "lead")
            await eventually(lambda: controller.is_leading)
            await _has_reports(cluster, controller)
            yield controller
    finally:
        controller.close()


async def _has_reports(cluster: LeaderCluster, controller: LoadBalancer) -> None:
    term = controller.term
    assert term is not None
    await eventually(lambda: term.load_monitor.reports.keys() >= cluster.brokers.keys())
