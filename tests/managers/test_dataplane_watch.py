"""What is owned is loaded, whatever became of the broker process meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.core.ownership import BundleState
from broker_ctl.dataplane.simulated import SimulatedDataPlane
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.managers.dataplane_watch import DataPlaneWatch
from broker_ctl.tasks import TaskScope
from tests.support.brokers import MemoryBroker, cluster
from tests.support.virtual_time import LoopClock, in_virtual_time
from tests.support.waiting import eventually

TIMEOUT_S = 3.0


@asynccontextmanager
async def watched(broker: MemoryBroker) -> AsyncIterator[DataPlaneWatch]:
    watch = DataPlaneWatch(broker.dataplane, broker.ownership, LoopClock(), TIMEOUT_S)
    async with TaskScope("watched") as scope:
        scope.start(watch.run(), "watch")
        yield watch


async def start_anew(broker: MemoryBroker) -> None:
    """Another instance, which has forgotten everything."""
    await SimulatedDataPlane.stop(broker.dataplane)
    await SimulatedDataPlane.start(broker.dataplane)


async def loaded(broker: MemoryBroker) -> set[object]:
    return set(await SimulatedDataPlane.loaded(broker.dataplane))


@in_virtual_time
async def test_a_new_instance_gets_everything_again() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        async with watched(broker) as watch:
            await asyncio.sleep(TIMEOUT_S)
            await start_anew(broker)
            assert await loaded(broker) == set()
            await asyncio.sleep(TIMEOUT_S)
            assert await loaded(broker) == set(built.bundles)
            assert watch.restarts == 1


@in_virtual_time
async def test_so_does_a_bundle_with_which_something_was_going_on_at_the_time() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        async with watched(broker) as watch:
            release = broker.steering.hold("topics")
            broker.steering.fail("topics", is_executed=True)
            splitting = asyncio.get_running_loop().create_task(
                broker.ownership.split(bundle, "range_equally_divide"), name="split"
            )
            await eventually(
                lambda: broker.ownership.owned()[bundle].state is BundleState.SPLITTING
            )
            await start_anew(broker)
            await eventually(lambda: watch.restarts == 1, deadline_s=2 * TIMEOUT_S)
            # The act fails, and the bundle is this broker's as before.
            release.set()
            with pytest.raises(DataPlaneUnreachable):
                await splitting
            assert broker.ownership.owned()[bundle].state is BundleState.OWNED
            await asyncio.sleep(TIMEOUT_S)
            assert await loaded(broker) == {bundle}
