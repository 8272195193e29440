"""What has promised acquires nothing, whatever it has begun (docs: failsafe)."""

import asyncio

import pytest

from broker_ctl.errors import NotAdmitted
from broker_ctl.store import paths
from broker_ctl.store.interface import Check
from broker_ctl.testing.virtual_time import in_virtual_time
from tests.support.clusters.brokers import TIMEOUT_S, MemoryBroker, cluster
from tests.support.time.waiting import eventually

LIST = "/list"
PAUSE_S = 2.0


async def make_list(broker: MemoryBroker) -> None:
    """A list of members at version 1; the broker has read version 0."""
    await broker.store.create(LIST)
    await broker.store.set(LIST, b"changed")
    broker.admission.checks = (Check(LIST, 0),)
    broker.admission.newer = (Check(LIST, 1),)


@in_virtual_time
async def test_a_broker_that_has_promised_acquires_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        broker.admission.is_open.clear()
        with pytest.raises(NotAdmitted):
            await broker.ownership.acquire(built.bundles[0])
        broker.admission.is_open.set()
        assert await broker.ownership.acquire(built.bundles[0])


@in_virtual_time
async def test_a_promise_that_is_given_during_an_acquisition_ends_it_before_its_node() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        broker.admission.passed, broker.admission.refusals = 1, 1
        with pytest.raises(NotAdmitted):
            await broker.ownership.acquire(built.bundles[0])
        assert await broker.store.exists(paths.ownership(built.bundles[0])) is None
        assert not broker.owned()


@in_virtual_time
async def test_the_transaction_checks_the_list_and_is_repeated_with_a_newer_one() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await make_list(broker)
        assert await broker.ownership.acquire(built.bundles[0])
        assert broker.admission.failed == [Check(LIST, 0)]


@in_virtual_time
async def test_nothing_is_acquired_again_after_an_expiry_while_a_promise_binds() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        broker.admission.is_open.clear()
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2, TIMEOUT_S)
        await asyncio.sleep(PAUSE_S)
        nodes = [await broker.store.exists(paths.ownership(one)) for one in built.bundles]
        assert nodes == [None] * len(built.bundles)
        broker.admission.is_open.set()
        await broker.wait_ready()
        assert broker.owned().keys() == set(built.bundles)


@in_virtual_time
async def test_a_promise_given_right_before_a_batch_is_sent_holds_it_back() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        broker.admission.refusals = 1
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2, TIMEOUT_S)
        await broker.wait_ready()
        assert broker.admission.refusals == 0
        assert broker.owned().keys() == set(built.bundles)


@in_virtual_time
async def test_batches_check_the_list_and_what_they_leave_is_acquired_with_a_newer_one() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        await make_list(broker)
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2, TIMEOUT_S)
        await broker.wait_ready()
        assert broker.admission.failed
        assert broker.owned().keys() == set(built.bundles)
