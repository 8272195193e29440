"""Deleting a namespace: all of it or nothing, and no ring of before passes for one of after."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.coordination.locks import Lock
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    BundleGone,
    BundleMoving,
    NamespaceMissing,
    OwnershipError,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, Operation, Result, Versioned
from broker_ctl.store.records.policies import PoliciesRecord
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.brokers import NAMESPACE, Cluster, MemoryBroker, cluster
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import eventually


async def recreate_namespace(by: MemoryBroker) -> tuple[Bundle, ...]:
    """Delete and create the namespace: another ring, whose local policies begin at version 0."""
    await by.namespaces.delete(NAMESPACE)
    ring = await by.namespaces.create(NAMESPACE, bundles=3)
    assert ring.version == 0
    return ring.bundles


async def take_what_overlaps(by: MemoryBroker, bundles: Sequence[Bundle], old: Bundle) -> None:
    for bundle in bundles:
        if bundle.overlaps(old):
            await by.ownership.acquire(bundle)


async def refusal(by: MemoryBroker, bundle: Bundle) -> BrokerCtlError | None:
    """Why the bundle cannot be acquired, where it cannot."""
    try:
        await by.ownership.acquire(bundle)
    except BrokerCtlError as error:
        return error
    return None


async def owned_by_none(built: Cluster, bundle: Bundle) -> bool:
    return bundle not in built.ensemble.observer.owners()


@in_virtual_time
async def test_a_bundle_that_is_acquired_meanwhile_refuses_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        multi, taken = one.store.multi, built.bundles[0]

        async def late(operations: Sequence[Operation]) -> tuple[Result, ...]:
            if paths.policies(NAMESPACE) in {operation.path for operation in operations}:
                await two.ownership.acquire(taken)
            return await multi(operations)

        monkeypatch.setattr(one.store, "multi", late)
        with pytest.raises(OwnershipError, match="acquired meanwhile; unload the namespace first"):
            await one.namespaces.delete(NAMESPACE)
        assert await one.store.get(paths.policies(NAMESPACE)) is not None
        assert (await one.namespaces.ring(NAMESPACE)).bundles == built.bundles
        assert two.owned().keys() == {taken}
        assert built.faults == []


@in_virtual_time
async def test_an_acquisition_by_a_deleted_ring_does_not_take_a_bundle_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        old = built.bundles[0]
        acquire, waits = two.locks.acquire, asyncio.Event()

        async def late(*given: Any) -> Lock:
            waits.set()
            await go_on.wait()
            return await acquire(*given)

        go_on = asyncio.Event()
        monkeypatch.setattr(two.locks, "acquire", late)
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(refusal(two, old), name="take")
            await waits.wait()
            bundles = await recreate_namespace(one)
            await take_what_overlaps(one, bundles, old)
            go_on.set()
        assert isinstance(taking.result(), BundleGone)
        assert await owned_by_none(built, old)
        assert built.faults == []


@in_virtual_time
async def test_an_old_ring_in_a_cache_is_not_taken_for_one_of_the_new_generation() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        old = built.bundles[0]
        await two.ownership.acquire(old)
        await two.ownership.unload(old)
        # The news of the ring are late, those of the generation are not.
        for stop in two.namespaces.cache._stops:
            stop()
        two.namespaces.cache._stops = []
        bundles = await recreate_namespace(one)
        await take_what_overlaps(one, bundles, old)
        assert old in await two.namespaces.ring(NAMESPACE)
        with pytest.raises(BundleGone):
            await two.ownership.acquire(old)
        assert built.faults == []


@in_virtual_time
async def test_bundles_that_are_reacquired_after_an_expiry_are_of_the_present_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        old = built.bundles[0]
        await two.ownership.acquire(old)
        rings = two.namespaces.rings

        async def early(*given: Any) -> Any:
            found = await rings(*given)
            bundles = await recreate_namespace(one)
            await asyncio.sleep(3.0)  # the grace of two
            await take_what_overlaps(one, bundles, old)
            return found

        monkeypatch.setattr(two.namespaces, "rings", early)
        two.expire()
        await eventually(lambda: len(two.reclaimed) == 2, deadline_s=60.0)
        assert two.owned() == {}
        assert built.faults == []


@in_virtual_time
async def test_a_ring_is_changed_only_in_the_generation_that_it_was_read_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        old = built.bundles[0]
        await two.ownership.acquire(old)
        get_many = two.store.get_many

        async def late(wanted: Sequence[str]) -> list[Versioned | None]:
            found = await get_many(wanted)
            if list(wanted) == [paths.ownership(old)]:
                monkeypatch.setattr(two.store, "get_many", get_many)
                # An operator deletes the owner node, and the bundle is in the next ring too.
                built.ensemble.delete_as_admin(paths.ownership(old))
                await one.namespaces.delete(NAMESPACE)
                await one.namespaces.create(NAMESPACE, boundaries=(0, 0x40000000, 0xFFFFFFFF))
                await asyncio.sleep(3.0)  # the grace of two
                await one.ownership.acquire(old)
            return found

        monkeypatch.setattr(two.store, "get_many", late)
        with pytest.raises(BundleMoving):
            await two.ownership.split(old, "range_equally_divide")
        assert len(await built.ring()) == 2
        assert one.owned().keys() == one.nodes().keys() == {old}
        assert built.faults == []


@in_virtual_time
async def test_a_namespace_of_before_gets_its_generation_when_a_bundle_is_taken() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        path = paths.ring_generation(NAMESPACE)
        await one.store.delete(path)
        for broker in built.brokers:
            broker.namespaces.forget(NAMESPACE)
        await two.ownership.acquire(built.bundles[0])
        node = await one.store.get(path)
        assert node is not None
        assert node.stat.version == 0
        await two.ownership.unload(built.bundles[0])
        await recreate_namespace(one)
        node = await one.store.get(path)
        assert node is not None
        assert node.stat.version == 2


@in_virtual_time
async def test_policies_that_another_tool_made_get_a_ring_of_the_next_generation() -> None:
    async with cluster(1) as built:
        (one,) = built.brokers
        await one.namespaces.delete(NAMESPACE)
        await one.store.create(paths.policies(NAMESPACE), PoliciesRecord(None).encode())
        before = await one.store.get(paths.ring_generation(NAMESPACE))
        (whole,) = (await one.namespaces.ring(NAMESPACE)).bundles
        after = await one.store.get(paths.ring_generation(NAMESPACE))
        assert before is not None
        assert after is not None
        assert after.stat.version == before.stat.version + 1
        assert await one.ownership.acquire(whole)


@in_virtual_time
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_deletion_without_an_answer_is_resolved_by_reading(
    monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    async with cluster(1) as built:
        (one,) = built.brokers
        multi = one.store.multi

        async def lost(operations: Sequence[Operation]) -> tuple[Result, ...]:
            monkeypatch.setattr(one.store, "multi", multi)
            if is_done:
                await multi(operations)
            raise Ambiguous("no answer")

        monkeypatch.setattr(one.store, "multi", lost)
        await one.namespaces.delete(NAMESPACE)
        with pytest.raises(NamespaceMissing):
            await one.namespaces.ring(NAMESPACE)


# Where the policies are in a store of their own.


class Apart:
    """Namespaces over two stores."""

    def __init__(self) -> None:
        self.local = MemoryStore(MemoryEnsemble())
        self.configuration = MemoryStore(MemoryEnsemble())
        self.namespaces = Namespaces(
            self.local,
            self.configuration,
            cluster="c1",
            default_bundles=lambda: 4,
            clock=LoopClock(),
            cache_rules=CacheRules(),
            rng=random.Random(1),
        )

    async def policies(self) -> PoliciesRecord | None:
        node = await self.configuration.get(paths.policies(NAMESPACE))
        return None if node is None else PoliciesRecord.decode(node.path, node.data)


@asynccontextmanager
async def apart() -> AsyncIterator[Apart]:
    built = Apart()
    for store in (built.local, built.configuration):
        await store.start()
        await store.wait_connected()
    await built.namespaces.start()
    await make_tenants(built.configuration, "c", NAMESPACE.tenant)
    yield built
    await built.namespaces.close()
    for store in (built.local, built.configuration):
        await store.close()


@in_virtual_time
async def test_policies_in_another_store_are_marked_and_stand_again_after_a_refusal() -> None:
    async with apart() as built:
        ring = await built.namespaces.create(NAMESPACE)
        node = paths.ownership(ring.bundles[0])
        await built.local.create(node, b"{}", CreateMode.EPHEMERAL, make_parents=True)
        with pytest.raises(OwnershipError, match="1 bundles are owned"):
            await built.namespaces.delete(NAMESPACE)
        policies = await built.policies()
        assert policies is not None
        assert not policies.is_deleted
        assert policies.boundaries == ring.boundaries
        await built.local.delete(node)
        await built.namespaces.delete(NAMESPACE)
        assert await built.policies() is None


@in_virtual_time
async def test_a_deletion_that_was_cut_off_leaves_no_ring_and_is_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with apart() as built:
        await built.namespaces.create(NAMESPACE)
        delete = built.configuration.delete

        async def lost(*given: Any) -> None:
            raise Ambiguous(f"no answer to {given}")

        monkeypatch.setattr(built.configuration, "delete", lost)
        with pytest.raises(Ambiguous):
            await built.namespaces.delete(NAMESPACE)
        with pytest.raises(NamespaceMissing, match="being deleted"):
            await built.namespaces.ring(NAMESPACE)
        monkeypatch.setattr(built.configuration, "delete", delete)
        await built.namespaces.delete(NAMESPACE)
        assert await built.policies() is None
