"""Constraints are what operators have set, through Pulsar or here, also where a node is corrupt."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.model.names import Namespace
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.policies import LocalPolicies
from tests.support.time.waiting import eventually

CLUSTER = "c1"
ISOLATION = paths.isolation_policies(CLUSTER)
ORDERS, USERS = Namespace("shop", "orders"), Namespace("shop", "users")
ONE = IsolationPolicy("one", ("shop/.*",), ("b-1",))


def data_of(*primary: str, namespaces: str = "shop/.*") -> dict[str, Any]:
    return {"namespaces": [namespaces], "primary": list(primary)}


class Scene:
    """Two stores, followed; and a Pulsar broker that writes into both."""

    def __init__(self) -> None:
        local, configuration = MemoryEnsemble(), MemoryEnsemble()
        self.local, self.configuration = MemoryStore(local), MemoryStore(configuration)
        self.pulsars_local = MemoryStore(local)
        self.pulsars_configuration = MemoryStore(configuration)
        self.racks: dict[str, str] = {}
        self.followed = ConstraintsCache(
            *(self.local, self.configuration, CLUSTER),
            rng=random.Random(1),
            racks=lambda: self.racks,
        )

    async def write(self, store: MemoryStore, path: str, value: object) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        if await store.exists(path) is None:
            await store.create(path, data, make_parents=True)
        else:
            await store.set(path, data)

    async def set_policies(self, value: object) -> None:
        await self.write(self.pulsars_configuration, ISOLATION, value)

    async def set_domain(self, name: str, value: object) -> None:
        path = paths.failure_domain(CLUSTER, name)
        await self.write(self.pulsars_configuration, path, value)

    async def set_group(self, namespace: Namespace, group: str | None) -> None:
        payload = LocalPolicies(anti_affinity_group=group).encode()
        await self.write(self.pulsars_local, paths.local_policies(namespace), payload)

    async def eventually(self, expected: Constraints) -> None:
        await eventually(lambda: self.followed.current() == expected)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    built = Scene()
    stores = (
        *(built.local, built.configuration),
        *(built.pulsars_local, built.pulsars_configuration),
    )
    for store in stores:
        await store.start()
        await store.wait_connected()
    yield built
    await built.followed.close()
    for store in stores:
        await store.close()


@in_virtual_time
async def test_constraints_that_stand_are_known_after_start() -> None:
    async with scene() as built:
        await built.set_policies({"one": data_of("b-1")})
        await built.set_domain("rack-1", {"brokers": ["b-1:8080", "b-2:8080"]})
        await built.set_group(ORDERS, "Critical")
        await built.set_group(USERS, None)
        assert built.followed.current() == NO_CONSTRAINTS
        await built.followed.start()
        assert built.followed.current() == Constraints(
            (ONE,),
            {"b-1:8080": "rack-1", "b-2:8080": "rack-1"},
            {ORDERS: "critical"},
        )


@in_virtual_time
async def test_a_broker_in_no_failure_domain_is_in_that_of_its_rack() -> None:
    async with scene() as built:
        await built.followed.start()
        built.racks = {"b-1:8080": "a", "b-2:8080": "b"}
        expected = Constraints(domain_of=built.racks)
        assert built.followed.current() == expected
        assert built.followed.current() is built.followed.current()
        await built.set_domain("west", {"brokers": ["b-1:8080"]})
        await built.eventually(Constraints(domain_of={"b-1:8080": "west", "b-2:8080": "b"}))
        built.racks = {}
        assert built.followed.current() == Constraints(domain_of={"b-1:8080": "west"})


@in_virtual_time
async def test_every_change_is_followed() -> None:
    async with scene() as built:
        await built.followed.start()
        assert built.followed.current() == NO_CONSTRAINTS
        await built.set_policies({"one": data_of("b-1")})
        await built.eventually(Constraints((ONE,)))
        await built.set_domain("rack-1", {"brokers": ["b-1:8080"]})
        await built.eventually(Constraints((ONE,), {"b-1:8080": "rack-1"}))
        await built.set_group(ORDERS, "g")
        await built.eventually(Constraints((ONE,), {"b-1:8080": "rack-1"}, {ORDERS: "g"}))
        await built.pulsars_configuration.delete(paths.failure_domain(CLUSTER, "rack-1"))
        await built.pulsars_local.delete(paths.local_policies(ORDERS))
        await built.set_policies({})
        await built.eventually(NO_CONSTRAINTS)


@in_virtual_time
async def test_policies_are_tried_in_the_order_of_the_node() -> None:
    async with scene() as built:
        names = ["z", "a", "m"]
        await built.set_policies({name: data_of("b-1") for name in names})
        await built.followed.start()
        assert [policy.name for policy in built.followed.current().isolation] == names


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"one":{"primary":1}}'])
def test_a_corrupt_node_changes_nothing_and_is_counted(payload: bytes) -> None:
    @in_virtual_time
    async def spoil() -> None:
        async with scene() as built:
            await built.set_policies({"one": data_of("b-1")})
            await built.set_domain("rack-1", {"brokers": ["b-1:8080"]})
            await built.set_group(ORDERS, "g")
            await built.followed.start()
            before = built.followed.current()
            await built.set_policies(payload)
            await eventually(lambda: built.followed.corrupt == 1)
            await built.set_domain("rack-1", b"{")
            await eventually(lambda: built.followed.corrupt == 2)
            await built.write(built.pulsars_local, paths.local_policies(ORDERS), b"{")
            await eventually(lambda: built.followed.corrupt == 3)
            assert built.followed.current() == before
            # Other namespaces are followed nevertheless.
            await built.set_group(USERS, "h")
            await eventually(lambda: USERS in built.followed.current().group_of)

    spoil()


@pytest.mark.parametrize("pattern", ["(a+)+b", "(", "(?P<x", "a" * 5000])
def test_a_policy_that_cannot_be_used_leaves_the_others_alone(pattern: str) -> None:
    @in_virtual_time
    async def use() -> None:
        async with scene() as built:
            await built.set_policies({"bad": data_of(pattern), "one": data_of("b-1")})
            await built.followed.start()
            assert built.followed.current().isolation == (ONE,)
            assert built.followed.corrupt == 1
            # One that could be used before stays as it was.
            await built.set_policies({"one": data_of(pattern), "two": data_of("b-2")})
            await eventually(lambda: len(built.followed.current().isolation) == 2)
            assert built.followed.current().isolation[0] == ONE

    use()


@in_virtual_time
async def test_a_broker_in_two_domains_is_in_the_first_by_name() -> None:
    async with scene() as built:
        await built.set_domain("b", {"brokers": ["x:1", "y:1"]})
        await built.set_domain("a", {"brokers": ["x:1"]})
        await built.followed.start()
        assert built.followed.current().domain_of == {"x:1": "a", "y:1": "b"}


@in_virtual_time
async def test_namespace_names_of_pulsar_v1_are_ignored() -> None:
    async with scene() as built:
        # A cluster below a tenant: no data, and the namespaces are a level deeper.
        await built.pulsars_local.create(
            f"{paths.LOCAL_POLICIES}/t/cluster/ns",
            LocalPolicies(anti_affinity_group="g").encode(),
            make_parents=True,
        )
        await built.set_group(ORDERS, "g")
        await built.followed.start()
        assert built.followed.current().group_of == {ORDERS: "g"}
        assert built.followed.corrupt == 0
