"""What is owned is loaded, whatever became of the broker process meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.tasks import TaskScope
from tests.support.clusters.brokers import MemoryBroker, cluster
from tests.support.time.waiting import eventually

TIMEOUT_S = 3.0


@asynccontextmanager
async def watched(
    broker: MemoryBroker, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[DataPlaneWatch]:
    watch = DataPlaneWatch(
        broker.dataplane, broker.ownership, LoopClock(), timeout_s, rng=random.Random(1)
    )
    async with TaskScope("watched") as scope:
        scope.start(watch.run(), "watch")
        yield watch


async def restart_dataplane(broker: MemoryBroker) -> None:
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
            await restart_dataplane(broker)
            assert await loaded(broker) == set()
            await asyncio.sleep(TIMEOUT_S)
            assert await loaded(broker) == set(built.bundles)
            assert watch.restarts == 1


@in_virtual_time
async def test_a_bundle_whose_split_the_restart_interrupted_is_loaded_again() -> None:
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
            await restart_dataplane(broker)
            await eventually(lambda: watch.restarts == 1, deadline_s=2 * TIMEOUT_S)
            # The act fails, and the bundle is this broker's as before.
            release.set()
            with pytest.raises(DataPlaneUnreachable):
                await splitting
            assert broker.ownership.owned()[bundle].state is BundleState.OWNED
            await asyncio.sleep(TIMEOUT_S)
            assert await loaded(broker) == {bundle}


@in_virtual_time
async def test_a_bundle_that_is_loaded_and_not_owned_is_fenced_at_the_second_look() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        # A call of one whose answer never came is carried out when another broker owns the bundle.
        old = await one.ownership.acquire(bundle)
        await one.ownership.unload(bundle)
        token = await two.ownership.acquire(bundle)
        await SimulatedDataPlane.load(one.dataplane, bundle, old)
        async with watched(one) as watch:
            await eventually(lambda: watch.fenced == 1, deadline_s=TIMEOUT_S)
        assert await loaded(one) == set()
        assert two.owned() == {bundle: token}


@in_virtual_time
async def test_a_bundle_that_is_loaded_under_another_token_is_fenced_and_loaded_again() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        held = broker.ownership.owned()[bundle]
        # As where the broker process has lost its memory of tokens, and an old call arrives.
        await restart_dataplane(broker)
        await SimulatedDataPlane.load(broker.dataplane, bundle, held.token - 1)
        async with watched(broker):
            await eventually(broker.is_consistent, deadline_s=2 * TIMEOUT_S)
        assert await broker.loaded() == {bundle: held.token}


@in_virtual_time
async def test_a_bundle_that_is_being_acquired_is_not_fenced() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        release = broker.steering.hold("load")
        acquiring = asyncio.get_running_loop().create_task(
            broker.ownership.acquire(bundle), name="acquire"
        )
        await eventually(lambda: broker.steering.preloaded)
        async with watched(broker) as watch:
            await asyncio.sleep(3 * TIMEOUT_S)
            assert watch.fenced == 0
            release.set()
            token = await acquiring
            await asyncio.sleep(3 * TIMEOUT_S)
            assert watch.fenced == 0
        assert await broker.loaded() == {bundle: token}


@in_virtual_time
async def test_children_take_the_place_of_a_parent_that_is_a_stranger() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        children = await broker.ownership.split(parent, "range_equally_divide")
        await restart_dataplane(broker)
        await SimulatedDataPlane.load(broker.dataplane, parent, 1)
        async with watched(broker) as watch:
            await eventually(broker.is_consistent, deadline_s=2 * TIMEOUT_S)
            await asyncio.sleep(3 * TIMEOUT_S)
            assert watch.fenced <= 1
        assert await loaded(broker) == set(children)


@in_virtual_time
async def test_a_bundle_that_was_unloaded_while_the_listing_travelled_is_not_fenced() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        answer = broker.steering.hold("loaded")
        async with watched(broker) as watch:
            # The first look has been answered, and its answer is on the way.
            await asyncio.sleep(TIMEOUT_S / 2)
            await broker.ownership.unload(bundle)
            answer.set()
            await asyncio.sleep(3 * TIMEOUT_S)
            assert watch.fenced == 0


@in_virtual_time
@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_load_that_overlaps_a_bundle_that_is_being_acquired_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        left, _ = bundle.cut((bundle.range.high // 2,))
        await SimulatedDataPlane.load(broker.dataplane, bundle if is_whole else left, 1)
        # Every message to the store takes its time.
        broker.steering.longest_s = 0.6
        acquiring = asyncio.get_running_loop().create_task(
            broker.ownership.acquire(bundle), name="acquire"
        )
        plane = SimulatedDataPlane
        looks = 0

        async def look() -> Mapping[Bundle, int]:
            nonlocal looks
            looks += 1
            return await plane.loaded(broker.dataplane)

        monkeypatch.setattr(broker.dataplane, "loaded", look)
        async with watched(broker, timeout_s=0.3) as watch:
            token = await acquiring
            assert looks > 2
            assert watch.fenced == 0
        assert await broker.loaded() == {bundle: token}


@in_virtual_time
async def test_a_bundle_that_is_released_while_the_listing_travels_is_not_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        answer, standing = broker.steering.hold("unload"), broker.dataplane.loaded
        releasing: list[asyncio.Task[object]] = []

        async def look() -> Mapping[Bundle, int]:
            if not releasing:
                unload = broker.ownership.unload(bundle)
                releasing.append(asyncio.get_running_loop().create_task(unload, name="unload"))
                await asyncio.sleep(TIMEOUT_S / 10)
            return await standing()

        monkeypatch.setattr(broker.dataplane, "loaded", look)
        async with watched(broker):
            await asyncio.sleep(TIMEOUT_S / 2)
            assert await loaded(broker) == set()
            answer.set()
            await releasing[0]
        assert await loaded(broker) == set()


@in_virtual_time
async def test_silence_for_the_whole_failure_timeout_ends_the_watch() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        clock = LoopClock()
        watch = DataPlaneWatch(
            broker.dataplane, broker.ownership, clock, TIMEOUT_S, rng=random.Random(1)
        )
        broker.steering.fail("loaded", times=1_000)
        began_s = clock.now_s()
        with pytest.raises(DataPlaneUnreachable, match="silent for"):
            await asyncio.wait_for(watch.run(), 10 * TIMEOUT_S)
        assert TIMEOUT_S < clock.now_s() - began_s < 2 * TIMEOUT_S
