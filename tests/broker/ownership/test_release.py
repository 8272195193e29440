"""Giving up: close, confirm, and only then the node goes."""

import asyncio
import logging
import re

import pytest

from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.errors import (
    AuthorityLost,
    BundleMoving,
    ConnectionLoss,
    Fenced,
    NotOwner,
    UnloadFailed,
)
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check
from tests.support.clusters.brokers import ACT_TICK_S, cluster
from tests.support.daemon.instruments import value_of
from tests.support.time.waiting import eventually


@in_virtual_time
async def test_topics_are_closed_before_the_node_goes_and_others_may_take_it_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        await asyncio.sleep(5 * ACT_TICK_S)
        assert value_of(one.instruments.unload_s, "_count") == 0
        answer = one.steering.hold("unload")
        asyncio.get_running_loop().call_later(1.5, answer.set)
        unloaded = await one.ownership.unload(bundle)
        assert unloaded.is_confirmed
        assert value_of(one.instruments.unload_s, "_sum") == pytest.approx(1.5, abs=0.05)
        assert re.search(r"released .*: closed \d+ topics in 15\d\d ms", caplog.text)
        assert unloaded.topics_closed == len(built.topics_in(bundle))
        assert await two.ownership.acquire(bundle)
        await asyncio.sleep(1.0)
        await built.settled()
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_only_what_is_owned_under_this_token_is_released() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        with pytest.raises(NotOwner):
            await broker.ownership.unload(bundle)
        token = await broker.ownership.acquire(bundle)
        with pytest.raises(NotOwner, match=f"token {token}, not {token - 1}"):
            await broker.ownership.release(bundle, token - 1, 1.0, ())
        assert broker.owned() == {bundle: token}


@in_virtual_time
async def test_while_a_bundle_is_released_lookups_and_acts_are_refused_as_moving() -> None:
    async with cluster(2) as built:
        one, _ = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        async with asyncio.TaskGroup() as group:
            group.create_task(one.ownership.unload(bundle), name="unload")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert one.ownership.owned()[bundle].state is BundleState.RELEASING
            for refused in (
                one.ownership.owner_of(bundle),
                one.ownership.acquire(bundle),
                one.ownership.unload(bundle),
                one.ownership.split(bundle, "range_equally_divide"),
            ):
                with pytest.raises(BundleMoving):
                    await refused
        assert await one.ownership.owner_of(bundle) is None


@in_virtual_time
async def test_a_bundle_that_does_not_close_is_fenced_and_released() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        broker.steering.fail("unload")
        unloaded = await broker.ownership.unload(built.bundles[0])
        assert not unloaded.is_confirmed
        await built.settled()
        assert broker.owned() == {}


@in_virtual_time
async def test_a_bundle_whose_topics_are_open_at_the_deadline_is_fenced_before_its_node_goes() -> (
    None
):
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        token = await one.ownership.acquire(bundle)
        await asyncio.sleep(5 * ACT_TICK_S)
        unloaded = await one.ownership.release(bundle, token, -0.1, ())
        assert not unloaded.is_confirmed
        assert await one.loaded() == {}
        assert await two.ownership.acquire(bundle)
        await asyncio.sleep(1.0)
        await built.settled()
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_a_bundle_that_can_be_neither_closed_nor_fenced_is_kept() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        token = await one.ownership.acquire(bundle)
        await asyncio.sleep(1.0)
        one.steering.fail("unload", is_executed=True)
        one.steering.fail("fence")
        with pytest.raises(UnloadFailed):
            await one.ownership.unload(bundle)
        assert one.owned() == {bundle: token}
        await asyncio.sleep(1.0)
        await built.settled()
        assert built.verdict(built.positions(bundle)).owners_ok
        assert await two.ownership.owner_of(bundle) is not None


@in_virtual_time
async def test_a_data_plane_that_answers_nothing_keeps_the_node_until_it_is_fenced() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        for verb in ("unload", "load"):
            one.steering.fail(verb)
        one.steering.fail("fence", times=4)
        with pytest.raises(UnloadFailed):
            await one.ownership.unload(bundle)
        assert one.nodes() != {}
        assert one.ownership.owned()[bundle].state is BundleState.RELEASING
        await eventually(lambda: not one.ownership.owned())
        await built.settled()
        assert await two.ownership.acquire(bundle)


@in_virtual_time
async def test_an_order_of_an_old_epoch_is_refused_and_the_bundle_is_served_on() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        token = await broker.ownership.acquire(bundle)
        await asyncio.sleep(1.0)
        await broker.store.create("/epoch")
        with pytest.raises(Fenced):
            await broker.ownership.release(bundle, token, 5.0, [Check("/epoch", 7)])
        assert broker.owned() == {bundle: token}
        await asyncio.sleep(1.0)
        await built.settled()
        verdict = built.verdict(built.positions(bundle))
        assert verdict.owners_ok
        assert verdict.unserved_s < 2 * ACT_TICK_S


@in_virtual_time
async def test_a_bundle_that_cannot_be_loaded_again_after_a_refusal_becomes_free() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        token = await broker.ownership.acquire(bundle)
        await broker.store.create("/epoch")
        broker.steering.fail("load")
        with pytest.raises(Fenced):
            await broker.ownership.release(bundle, token, 5.0, [Check("/epoch", 7)])
        await eventually(lambda: not broker.ownership.owned())
        await built.settled()
        assert await broker.ownership.acquire(bundle) > token


@in_virtual_time
async def test_a_refused_release_does_not_serve_on_what_was_taken_away_meanwhile() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        token = await broker.ownership.acquire(bundle)
        await broker.store.create("/epoch")
        answer = broker.steering.hold("load")
        releasing = asyncio.get_running_loop().create_task(
            broker.ownership.release(bundle, token, 5.0, [Check("/epoch", 7)]), name="release"
        )

        async def is_loaded_again() -> bool:
            held = broker.ownership.owned()[bundle]
            return held.state is BundleState.RELEASING and bool(await broker.loaded())

        await eventually(lambda: not broker.dataplane._table.overlapping(bundle), poll_s=0.0001)
        await eventually(is_loaded_again)
        built.ensemble.delete_as_admin(paths.ownership(bundle))
        await eventually(lambda: broker.ownership.owned()[bundle].lock is None)
        answer.set()
        with pytest.raises(Fenced):
            await releasing
        await eventually(lambda: not broker.ownership.owned())
        assert await broker.loaded() == {}


@in_virtual_time
async def test_a_release_without_an_answer_is_worked_off_later() -> None:
    async with cluster(2, operation_timeout_s=2.0) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        one.memory.disconnect()
        with pytest.raises(ConnectionLoss):
            await one.ownership.unload(bundle)
        assert one.ownership.owned() == {}
        assert await SimulatedDataPlane.loaded(one.dataplane) == {}
        one.memory.reconnect()
        await eventually(lambda: not one.nodes())
        assert await two.ownership.acquire(bundle)
        await built.settled()


@in_virtual_time
async def test_the_end_of_the_session_during_a_release_has_the_bundle_taken_again() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        token = await broker.ownership.acquire(bundle)
        broker.steering.arm(1, broker.expire)
        with pytest.raises(AuthorityLost):
            await broker.ownership.unload(bundle)
        await built.settled()
        assert broker.owned()[bundle] > token


@in_virtual_time
async def test_a_late_loss_of_a_node_that_was_released_leaves_its_successor_alone() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        released = broker.ownership.owned()[bundle].lock
        assert released is not None
        await broker.ownership.unload(bundle)
        token = await broker.ownership.acquire(bundle)
        released.on_lost(released)
        assert broker.owned() == {bundle: token}
        await built.settled()


@in_virtual_time
async def test_past_its_lease_a_broker_refuses_at_once_and_closes_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        token = await broker.ownership.acquire(bundle)
        broker.memory.disconnect()
        await eventually(lambda: broker.watcher.state is SessionState.LOST, deadline_s=60.0)
        began_s = broker.clock.now_s()
        with pytest.raises(AuthorityLost):
            await broker.ownership.release(bundle, token, ACT_TICK_S, ())
        assert broker.clock.now_s() == began_s
        assert broker.ownership.owned()[bundle].state is BundleState.OWNED
