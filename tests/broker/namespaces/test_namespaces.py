"""Namespaces: where the ring comes from, and who wins where two places have one."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.errors import (
    CorruptRecord,
    InvalidName,
    NamespaceExists,
    NamespaceMissing,
    OwnershipError,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("t", "ns")
QUARTERS = (0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF)
HALVES = (0, 0x80000000, 0xFFFFFFFF)


class Scene:
    """A store of the brokers, one of the configuration, and two brokers' namespaces."""

    def __init__(self) -> None:
        local, configuration = MemoryEnsemble(), MemoryEnsemble()
        self.local = MemoryStore(local)
        self.other = MemoryStore(local)
        self.configuration = MemoryStore(configuration)
        self.namespaces = self._namespaces(self.local)
        self.others = self._namespaces(self.other)

    def _namespaces(self, store: MemoryStore) -> Namespaces:
        return Namespaces(
            store,
            self.configuration,
            cluster="c1",
            default_bundles=lambda: 4,
            clock=LoopClock(),
            cache_rules=CacheRules(),
            rng=random.Random(1),
        )

    async def write_policies(self, payload: bytes) -> None:
        path = paths.policies(NAMESPACE)
        await self.configuration.create(path, payload, make_parents=True)

    async def policies(self) -> PoliciesRecord:
        node = await self.configuration.get(paths.policies(NAMESPACE))
        assert node is not None
        return PoliciesRecord.decode(node.path, node.data)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    built = Scene()
    stores = (built.local, built.other, built.configuration)
    for store in stores:
        await store.start()
        await store.wait_connected()
    await built.namespaces.start()
    await built.others.start()
    await make_tenants(built.configuration, "c1", "t", "a", "b")
    yield built
    await built.namespaces.close()
    await built.others.close()
    for store in stores:
        await store.close()


@in_virtual_time
async def test_a_namespace_is_created_with_its_policies_and_ring() -> None:
    async with scene() as built:
        ring = await built.namespaces.create(NAMESPACE)
        assert ring.boundaries == QUARTERS
        assert ring.version == 0
        assert (await built.policies()).boundaries == QUARTERS
        assert await built.others.ring(NAMESPACE) == ring
        with pytest.raises(NamespaceExists):
            await built.others.create(NAMESPACE)


@in_virtual_time
async def test_bundles_or_boundaries_may_be_given() -> None:
    async with scene() as built:
        two = await built.namespaces.create(Namespace("t", "two"), bundles=2)
        assert two.boundaries == HALVES
        given = (0xFFFFFFFF, 0, 0x10, 0x10)
        odd = await built.namespaces.create(Namespace("t", "odd"), boundaries=given)
        assert odd.boundaries == (0, 0x10, 0xFFFFFFFF)
        for bundles, boundaries in ((0, ()), (None, (1, 5))):
            with pytest.raises(InvalidName):
                await built.namespaces.create(NAMESPACE, bundles=bundles, boundaries=boundaries)
        assert await built.namespaces.of_tenant("t") == [
            Namespace("t", "odd"),
            Namespace("t", "two"),
        ]


@in_virtual_time
async def test_local_policies_win_and_are_made_from_the_policies_where_absent() -> None:
    async with scene() as built:
        with pytest.raises(NamespaceMissing):
            await built.namespaces.ring(NAMESPACE)
        await built.write_policies(PoliciesRecord(QUARTERS).encode())
        assert (await built.namespaces.ring(NAMESPACE)).boundaries == QUARTERS
        path = paths.local_policies(NAMESPACE)
        await built.other.set(path, LocalPolicies(HALVES).encode())
        await eventually(lambda: built.namespaces.cache.peek(path) is None)
        ring = await built.namespaces.ring(NAMESPACE)
        assert (ring.boundaries, ring.version) == (HALVES, 1)


@in_virtual_time
async def test_policies_without_bundles_are_one_full_bundle() -> None:
    async with scene() as built:
        await built.write_policies(b"{}")
        assert (await built.namespaces.ring(NAMESPACE)).boundaries == (0, 0xFFFFFFFF)


@in_virtual_time
async def test_many_that_ask_at_once_get_one_ring() -> None:
    async with scene() as built:
        await built.write_policies(PoliciesRecord(QUARTERS).encode())
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(one.ring(NAMESPACE), name=f"{number}")
                for number, one in enumerate([built.namespaces, built.others] * 10)
            ]
        assert {task.result() for task in asked} == {Ring(NAMESPACE, QUARTERS, 0)}


@in_virtual_time
async def test_policies_that_do_not_decode_are_an_error_and_counted() -> None:
    async with scene() as built:
        await built.local.create(paths.local_policies(NAMESPACE), b"{", make_parents=True)
        with pytest.raises(CorruptRecord):
            await built.namespaces.ring(NAMESPACE)
        assert built.namespaces.cache.corrupt == 1


@in_virtual_time
async def test_a_namespace_is_deleted_once_no_broker_owns_a_bundle() -> None:
    async with scene() as built:
        ring = await built.namespaces.create(NAMESPACE)
        node = paths.ownership(ring.bundles[0])
        await built.other.create(node, b"{}", CreateMode.EPHEMERAL, make_parents=True)
        with pytest.raises(OwnershipError, match="1 bundles are owned"):
            await built.namespaces.delete(NAMESPACE)
        await built.other.delete(node)
        await built.namespaces.delete(NAMESPACE)
        for one in (built.namespaces, built.others):
            one.forget(NAMESPACE)
            with pytest.raises(NamespaceMissing):
                await one.ring(NAMESPACE)
        with pytest.raises(NamespaceMissing):
            await built.namespaces.delete(NAMESPACE)
        assert await built.local.exists(paths.ownership_of(NAMESPACE)) is None


@in_virtual_time
async def test_tenants_and_namespaces_are_listed() -> None:
    async with scene() as built:
        for namespace in (Namespace("a", "x"), Namespace("a", "y"), Namespace("b", "z")):
            await built.namespaces.create(namespace)
        assert await built.namespaces.tenants() == ["a", "b", "t"]
        assert [str(one) for one in await built.namespaces.all()] == ["a/x", "a/y", "b/z"]


@in_virtual_time
async def test_brokers_that_publish_at_once_publish_the_newest_ring() -> None:
    async with scene() as built:
        await built.namespaces.create(NAMESPACE, bundles=1)
        kept = replace(await built.policies(), others={"retention": 7})
        await built.configuration.set(paths.policies(NAMESPACE), kept.encode())
        rounds = 16
        for number in range(1, rounds):
            points = tuple(i << 24 for i in range(number + 1))
            local = LocalPolicies((*points, 0xFFFFFFFF))
            await built.other.set(paths.local_policies(NAMESPACE), local.encode())
            async with asyncio.TaskGroup() as group:
                for one in (built.namespaces, built.others):
                    group.create_task(one.publish_ring(NAMESPACE), name="publish")
            found = await built.policies()
            assert found.boundaries == local.boundaries
            assert found.others == {"retention": 7}


@in_virtual_time
async def test_a_ring_change_that_the_cache_missed_is_published() -> None:
    async with scene() as built:
        await built.namespaces.create(NAMESPACE, bundles=1)
        await built.others.ring(NAMESPACE)
        for stop in built.others.cache._stops:
            stop()
        built.others.cache._stops = []
        await built.local.set(paths.local_policies(NAMESPACE), LocalPolicies(HALVES).encode())
        await built.others.publish_ring(NAMESPACE)
        assert (await built.policies()).boundaries == HALVES


@in_virtual_time
async def test_a_namespace_that_does_not_exist_is_not_published() -> None:
    async with scene() as built:
        await built.namespaces.publish_ring(NAMESPACE)
        assert await built.configuration.get(paths.policies(NAMESPACE)) is None
