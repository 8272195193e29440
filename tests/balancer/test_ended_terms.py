"""A term that has ended leaves nothing behind that only a search for garbage would find.

A leader of many bundles has hundreds of megabytes, and searches of so much are put off.
"""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.strategies.shedding_strategies import BALANCE, SHEDDING
from broker_ctl.errors import BundleGone
from broker_ctl.store import paths
from broker_ctl.store.records.ownership import OwnerNode
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
FREED_S = 5.0


@pytest.fixture(autouse=True)
def no_search() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        running.rules = replace(QUICK, shedding=SHEDDING.find(BALANCE))
        ring = await running.create_namespace(8)
        # A request that fails leaves a cycle in the servers in memory, and not in those elsewhere.
        for path in (paths.bundle_data(ring.bundles[0]), paths.broker_time_average(A)):
            await running.brokers[A].store.create(path, b"{}", make_parents=True)
        for bundle in ring.bundles[:4]:
            await running.brokers[A].acquire(bundle)
        await running.publish()
        yield running


class Lead:
    """A balancer that leads until a test ends it."""

    def __init__(self, dependencies: BalancerDependencies) -> None:
        self.balancer = LoadBalancer(dependencies)
        self.balancer.start()
        self._tasks = TaskScope("test")
        self._work: asyncio.Task[None] | None = None

    async def begin(self, cluster: LeaderCluster) -> "list[weakref.ref[object]]":
        """Lead, and plan for a while; returns what knows all bundles, and all topics."""
        lead = self.balancer.lead(await cluster.elect(A))
        self._work = self._tasks.start(lead, "lead", is_joined=True)
        await eventually(
            lambda: self.balancer.term is not None and self.balancer.term.recorder.cycle > 1
        )
        assert self.balancer.term is not None
        term = self.balancer.term
        return [weakref.ref(term.load_monitor), weakref.ref(term.topics)]

    def cancel(self) -> None:
        assert self._work is not None
        self._work.cancel()

    async def ended(self) -> None:
        assert self._work is not None
        with suppress(asyncio.CancelledError):
            await self._work
        self._work = None
        await self._tasks.close()
        self.balancer.close()


async def test_a_term_that_is_cancelled_is_freed(cluster: LeaderCluster) -> None:
    lead = Lead(cluster.dependencies(A))
    known = await lead.begin(cluster)
    lead.cancel()
    await lead.ended()
    await eventually(lambda: not any(each() for each in known), FREED_S)


async def test_a_term_that_another_leader_ends_is_freed(cluster: LeaderCluster) -> None:
    lead = Lead(cluster.dependencies(A))
    known = await lead.begin(cluster)
    cluster.has_authority = False
    await lead.ended()
    await eventually(lambda: not any(each() for each in known), FREED_S)


async def test_a_term_that_ends_while_it_reads_owners_is_freed(cluster: LeaderCluster) -> None:
    dependencies = cluster.dependencies(A)
    is_slow, reads = False, asyncio.Event()

    async def owner_of(bundle: Bundle) -> OwnerNode | None:
        if is_slow:
            reads.set()
            await asyncio.Event().wait()
        return await dependencies.owner_of(bundle)

    lead = Lead(replace(dependencies, owner_of=owner_of))
    known = await lead.begin(cluster)
    assert lead.balancer.term is not None
    # Its owner node is read until B reports it.
    lead.balancer.term.memory.record_assigned(Ring.even(NAMESPACE, 8).bundles[0], B)
    is_slow = True
    await reads.wait()
    lead.cancel()
    await lead.ended()
    await eventually(lambda: not any(each() for each in known), FREED_S)


async def test_a_term_in_which_an_operation_was_refused_is_freed(cluster: LeaderCluster) -> None:
    lead = Lead(cluster.dependencies(A))
    known = await lead.begin(cluster)
    with suppress(BundleGone):
        await lead.balancer.move(Bundle.parse(f"{NAMESPACE}/0x00000000_0x00000001"), B)
    lead.cancel()
    await lead.ended()
    await eventually(lambda: not any(each() for each in known), FREED_S)
