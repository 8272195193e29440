"""Policies that operators change: what is refused, what survives, who is to be unloaded."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.policies.constraints import (
    MAX_BROKERS,
    MAX_PATTERNS,
    MAX_POLICIES,
    PolicyEffect,
    allows,
    namespaces_to_unload,
    parse_policy,
)
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.core.model.broker import Constraints, IsolationPolicy, UnloadScope
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import (
    InvalidName,
    InvalidPolicy,
    NamespaceMissing,
    PoliciesReadOnly,
    PolicyConflict,
    PolicyMissing,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.tenants import make_tenants

CLUSTER = "c1"
ISOLATION = paths.isolation_policies(CLUSTER)
ORDERS, USERS, OTHER = Namespace("shop", "orders"), Namespace("shop", "users"), Namespace("x", "y")
LIVE = ("b-1:8080", "b-2:8080", "b-3:8080")
SHOP = IsolationPolicy("shop", ("shop/.*",), ("b-1",), ("b-2",))
FLAG = paths.POLICIES_READ_ONLY


class Scene:
    """The managers of two brokers, on the stores of one cluster."""

    def __init__(self) -> None:
        local, configuration = MemoryEnsemble(), MemoryEnsemble()
        self.local, self.configuration = MemoryStore(local), MemoryStore(configuration)
        self.others = MemoryStore(local), MemoryStore(configuration)
        self.namespaces, self.policies = self._managers(self.local, self.configuration, 1)
        self.other_namespaces, self.other = self._managers(*self.others, 2)

    @staticmethod
    def _managers(
        store: MemoryStore, configuration: MemoryStore, seed: int
    ) -> tuple[Namespaces, Policies]:
        clock = LoopClock()
        namespaces = Namespaces(
            store,
            configuration,
            cluster=CLUSTER,
            default_bundles=lambda: 4,
            clock=clock,
            cache_rules=CacheRules(),
            rng=random.Random(1),
        )
        policies = Policies.of(
            store,
            configuration,
            cluster=CLUSTER,
            namespaces=namespaces,
            clock=clock,
            rng=random.Random(seed),
        )
        return namespaces, policies

    async def json_at(self, path: str) -> Any:
        node = await self.configuration.get(path)
        return None if node is None else json.loads(node.data)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    built = Scene()
    stores = (built.local, built.configuration, *built.others)
    for store in stores:
        await store.start()
        await store.wait_connected()
    await built.namespaces.start()
    await built.other_namespaces.start()
    await make_tenants(built.configuration, CLUSTER, "shop", "x")
    yield built
    await built.namespaces.close()
    await built.other_namespaces.close()
    for store in stores:
        await store.close()


# Isolation policies.


@in_virtual_time
async def test_isolation_policies_come_and_go() -> None:
    async with scene() as built:
        isolation = built.policies.isolation
        assert await isolation.all() == ()
        await isolation.set(SHOP, LIVE)
        later = replace(SHOP, name="later", primary=("b-3",))
        await isolation.set(later, LIVE)
        assert await built.other.isolation.all() == (SHOP, later)
        await isolation.set(replace(SHOP, min_available=2), LIVE)
        assert [policy.min_available for policy in await isolation.all()] == [2, 1]
        await built.other.isolation.delete("shop")
        assert await isolation.all() == (later,)
        for name in ("shop", "never"):
            with pytest.raises(PolicyMissing, match=name):
                await isolation.delete(name)


@in_virtual_time
async def test_a_policy_that_pulsar_wrote_survives_a_change_of_another() -> None:
    async with scene() as built:
        theirs = {"namespaces": ["a/b"], "primary": ["(?=java)x"], "newer": {"k": 1}}
        data = json.dumps({"theirs": theirs}).encode()
        await built.configuration.create(ISOLATION, data, make_parents=True)
        await built.policies.isolation.set(SHOP, LIVE)
        found = await built.json_at(ISOLATION)
        assert list(found) == ["theirs", "shop"]
        assert found["theirs"] == theirs


@in_virtual_time
async def test_changes_of_two_brokers_at_once_are_both_kept() -> None:
    async with scene() as built:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                party = (built.policies, built.other)[number % 2]
                policy = replace(SHOP, name=f"p-{number}")
                group.create_task(party.isolation.set(policy, LIVE), name=policy.name)
        assert len(await built.policies.isolation.all()) == 20


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"namespaces": ()}, "namespaces"),
        ({"primary": ()}, "primary"),
        ({"primary": ("",)}, "primary"),
        ({"namespaces": ("(",)}, "namespaces"),
        ({"secondary": ("(a+)+b",)}, "secondary"),
        ({"primary": ("a" * 5000,)}, "primary"),
        ({"primary": ("b",) * (MAX_PATTERNS + 1)}, "primary"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(change: dict[str, Any], named: str) -> None:
    @in_virtual_time
    async def refuse() -> None:
        async with scene() as built:
            with pytest.raises(InvalidPolicy, match=named):
                await built.policies.isolation.set(replace(SHOP, **change), LIVE)
            assert await built.json_at(ISOLATION) is None

    refuse()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 129, "a\n"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    @in_virtual_time
    async def refuse() -> None:
        async with scene() as built:
            with pytest.raises(InvalidName):
                await built.policies.isolation.set(replace(SHOP, name=name), LIVE)
            with pytest.raises(InvalidName):
                await built.policies.domains.set(name, ["b:1"])
            await built.namespaces.create(ORDERS)
            if name != "ü":
                with pytest.raises(InvalidName):
                    await built.policies.groups.set(ORDERS, name)

    refuse()


@in_virtual_time
async def test_a_policy_beyond_the_limit_of_a_cluster_is_refused() -> None:
    async with scene() as built:
        policy = {"namespaces": ["a/b"], "primary": ["x"]}
        full = {f"p-{number}": policy for number in range(MAX_POLICIES)}
        data = json.dumps(full).encode()
        await built.configuration.create(ISOLATION, data, make_parents=True)
        with pytest.raises(InvalidPolicy, match="at most"):
            await built.policies.isolation.set(SHOP, LIVE)
        await built.policies.isolation.set(replace(SHOP, name="p-0"), LIVE)


def test_a_body_is_read_as_pulsar_reads_it() -> None:
    body = {
        "namespaces": ["shop/.*"],
        "primary": ["b-1"],
        "secondary": ["b-2"],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "2"}},
    }
    assert parse_policy("shop", body) == replace(SHOP, min_available=2)
    for wrong in ({"primary": "b"}, {"auto_failover_policy": {"policy_type": "x"}}):
        with pytest.raises(InvalidPolicy, match="policy shop"):
            parse_policy("shop", body | wrong)


# Who is to be unloaded.


def names_of(
    before: IsolationPolicy | None, after: IsolationPolicy, *earlier: IsolationPolicy
) -> list[str]:
    """To be unloaded when ``after`` replaces ``before``, behind policies that are tried first."""
    former = Constraints((*earlier, before) if before else earlier)
    found = namespaces_to_unload(former, Constraints((*earlier, after)), after.name, ALL)
    return [str(namespace) for namespace in found]


ALL = [ORDERS, USERS, OTHER, Namespace("pulsar", "b-9:8080"), Namespace("sla-monitor", "b-9")]
EVERYWHERE = replace(SHOP, namespaces=(".*",))


@pytest.mark.parametrize("scope", [None, UnloadScope.NONE])
def test_without_a_scope_nothing_is_unloaded(scope: UnloadScope | None) -> None:
    assert names_of(None, replace(SHOP, unload_scope=scope)) == []


@pytest.mark.parametrize("scope", [UnloadScope.ALL_MATCHING, UnloadScope.CHANGED])
def test_a_new_policy_concerns_all_that_match(scope: UnloadScope) -> None:
    assert names_of(None, replace(SHOP, unload_scope=scope)) == ["shop/orders", "shop/users"]


def test_changed_concerns_those_that_begin_or_cease_to_match() -> None:
    scope = UnloadScope.CHANGED
    same = replace(SHOP, unload_scope=scope)
    assert names_of(SHOP, same) == []
    only_orders = replace(SHOP, namespaces=("shop/orders",), unload_scope=scope)
    assert names_of(SHOP, only_orders) == ["shop/users"]
    assert names_of(only_orders, same) == ["shop/users"]
    assert names_of(only_orders, replace(EVERYWHERE, unload_scope=scope)) == ["shop/users", "x/y"]


@pytest.mark.parametrize("change", [{"primary": ("b-7",)}, {"secondary": ()}, {"min_available": 3}])
def test_changed_concerns_all_where_the_brokers_are_others(change: dict[str, Any]) -> None:
    changed = replace(SHOP, unload_scope=UnloadScope.CHANGED, **change)
    assert names_of(SHOP, changed) == ["shop/orders", "shop/users"]


def test_all_matching_concerns_all_though_nothing_has_changed() -> None:
    again = replace(SHOP, unload_scope=UnloadScope.ALL_MATCHING)
    assert names_of(SHOP, again) == ["shop/orders", "shop/users"]


def test_a_namespace_of_an_earlier_policy_is_not_concerned() -> None:
    earlier = replace(SHOP, name="earlier", namespaces=("shop/orders",))
    late = replace(EVERYWHERE, unload_scope=UnloadScope.ALL_MATCHING)
    assert names_of(None, late, earlier) == ["shop/users", "x/y"]


@in_virtual_time
async def test_the_namespaces_of_the_cluster_are_asked() -> None:
    async with scene() as built:
        for namespace in (ORDERS, USERS, OTHER):
            await built.namespaces.create(namespace)
        policy = replace(SHOP, unload_scope=UnloadScope.CHANGED)
        first = await built.policies.isolation.set(policy, LIVE)
        assert first == PolicyEffect(unloads=(ORDERS, USERS), without_broker=())
        again = await built.policies.isolation.set(policy, LIVE)
        assert again == PolicyEffect(unloads=(), without_broker=())


@in_virtual_time
async def test_namespaces_that_a_policy_leaves_without_a_live_broker_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as built:
        for namespace in (ORDERS, USERS, OTHER):
            await built.namespaces.create(namespace)
        isolation = built.policies.isolation
        nobody = replace(SHOP, primary=("b-9",), secondary=())
        foretold = await isolation.set(nobody, LIVE, is_dry_run=True)
        assert foretold.without_broker == (ORDERS, USERS)
        assert await isolation.all() == ()
        # All brokers are primaries of the shop: the other namespaces have none left.
        everybody = replace(SHOP, primary=(".*",))
        assert (await isolation.set(everybody, LIVE)).without_broker == (OTHER,)
        assert "leaves 1 namespaces without a live broker, the first is x/y" in caplog.text
        # It had none before.
        assert (await isolation.set(everybody, LIVE)).without_broker == ()


@pytest.mark.parametrize(
    ("namespace", "broker_id", "live", "is_allowed"),
    [
        (ORDERS, "b-1:8080", ["b-1:8080", "b-2:8080"], True),
        (ORDERS, "b-2:8080", ["b-1:8080", "b-2:8080"], False),
        (ORDERS, "b-2:8080", ["b-2:8080"], True),
        (ORDERS, "b-3:8080", ["b-3:8080"], False),
        (OTHER, "b-1:8080", ["b-1:8080"], False),
        (OTHER, "b-2:8080", ["b-2:8080"], True),
        (OTHER, "b-3:8080", ["b-3:8080"], True),
    ],
)
def test_a_broker_is_allowed_as_in_placement(
    namespace: Namespace, broker_id: str, live: list[str], is_allowed: bool
) -> None:
    assert allows(Constraints((SHOP,)), namespace, broker_id, live) is is_allowed


# Failure domains.


@in_virtual_time
async def test_failure_domains_come_and_go() -> None:
    async with scene() as built:
        domains = built.policies.domains
        assert await domains.all() == {}
        await domains.set("rack-1", ["b-1:8080", "b-2:8080", "b-1:8080"])
        await domains.set("rack-2", ["[::1]:8080"])
        assert await built.other.domains.all() == {
            "rack-1": ("b-1:8080", "b-2:8080"),
            "rack-2": ("[::1]:8080",),
        }
        assert await domains.find("rack-1") == ("b-1:8080", "b-2:8080")
        await domains.set("rack-1", ["b-2:8080"])
        await domains.delete("rack-2")
        assert await domains.all() == {"rack-1": ("b-2:8080",)}
        for act in (domains.find, domains.delete):
            with pytest.raises(PolicyMissing, match="rack-2"):
                await act("rack-2")


@in_virtual_time
async def test_a_broker_is_in_one_failure_domain() -> None:
    async with scene() as built:
        await built.policies.domains.set("rack-1", ["b-1:8080", "b-2:8080"])
        with pytest.raises(PolicyConflict, match="b-2:8080 is in failure domain rack-1"):
            await built.other.domains.set("rack-2", ["b-3:8080", "b-2:8080"])
        assert await built.json_at(paths.failure_domain(CLUSTER, "rack-2")) is None
        await built.policies.domains.set("rack-1", ["b-1:8080"])
        await built.other.domains.set("rack-2", ["b-2:8080"])


@in_virtual_time
async def test_of_two_requests_at_once_one_gets_the_broker() -> None:
    async with scene() as built:

        async def claim(name: str) -> bool:
            try:
                await built.policies.domains.set(name, ["b-1:8080"])
            except PolicyConflict:
                return False
            return True

        async with asyncio.TaskGroup() as group:
            claims = [group.create_task(claim(name), name=name) for name in ("r-1", "r-2")]
        assert sorted(one.result() for one in claims) == [False, True]


@in_virtual_time
async def test_fields_of_others_survive_in_a_failure_domain() -> None:
    async with scene() as built:
        path = paths.failure_domain(CLUSTER, "r")
        await built.configuration.create(path, b'{"brokers":[],"zone":"z"}', make_parents=True)
        await built.policies.domains.set("r", ["b-1:1"])
        assert await built.json_at(path) == {"brokers": ["b-1:1"], "zone": "z"}


@pytest.mark.parametrize(
    "brokers",
    [[], ["b-1"], ["b:1/x"], ["b 1:1"], ["b:"], [":1"], ["b:1"] * (MAX_BROKERS + 1), ["b:1\n"]],
)
def test_brokers_that_are_none_are_refused(brokers: list[str]) -> None:
    @in_virtual_time
    async def refuse() -> None:
        async with scene() as built:
            with pytest.raises(InvalidPolicy, match="brokers"):
                await built.policies.domains.set("r", brokers)

    refuse()


# Anti-affinity groups.


@in_virtual_time
async def test_a_group_is_beside_a_ring_and_changes_nothing_else() -> None:
    async with scene() as built:
        ring = await built.namespaces.create(ORDERS)
        path = paths.local_policies(ORDERS)
        foreign = LocalPolicies(ring.boundaries, None, {"migrated": False})
        await built.others[0].set(path, foreign.encode())
        await built.policies.groups.set(ORDERS, "Critical")
        node = await built.local.get(path)
        assert node is not None
        assert LocalPolicies.decode(path, node.data) == replace(
            foreign, anti_affinity_group="Critical"
        )
        assert await built.other.groups.group_of(ORDERS) == "Critical"
        await built.other.groups.set(ORDERS, None)
        node = await built.local.get(path)
        assert node is not None
        assert json.loads(node.data) == json.loads(foreign.encode())


@in_virtual_time
async def test_a_group_does_not_cut_a_namespace_down_to_one_bundle() -> None:
    async with scene() as built:
        await built.namespaces.create(ORDERS, bundles=8)
        # As a Pulsar cluster leaves it where nobody has looked a topic up yet.
        await built.others[0].delete(paths.local_policies(ORDERS))
        await built.policies.groups.set(ORDERS, "g")
        assert len((await built.other_namespaces.ring(ORDERS)).bundles) == 8


@in_virtual_time
async def test_members_of_a_group_are_found_whatever_its_case() -> None:
    async with scene() as built:
        for namespace, group in ((ORDERS, "G"), (USERS, None), (OTHER, "g")):
            await built.namespaces.create(namespace)
            await built.policies.groups.set(namespace, group)
        assert await built.policies.groups.members("shop", "g") == [ORDERS]
        assert await built.policies.groups.members("x", "G") == [OTHER]
        assert await built.policies.groups.members("nobody", "g") == []


@in_virtual_time
async def test_an_unknown_namespace_has_no_group() -> None:
    async with scene() as built:
        with pytest.raises(NamespaceMissing):
            await built.policies.groups.set(ORDERS, "g")
        with pytest.raises(NamespaceMissing):
            await built.policies.groups.group_of(ORDERS)


# The flag.


@in_virtual_time
async def test_while_the_flag_stands_nothing_is_written_and_everything_is_read() -> None:
    async with scene() as built:
        policies = built.policies
        await built.namespaces.create(ORDERS)
        await policies.isolation.set(SHOP, LIVE)
        await policies.domains.set("r", ["b:1"])
        await policies.groups.set(ORDERS, "g")
        await built.others[1].create(FLAG, b"", make_parents=True)
        for write in (
            policies.isolation.set(replace(SHOP, name="other"), LIVE),
            policies.isolation.delete("shop"),
            policies.domains.set("other", ["c:1"]),
            policies.domains.delete("r"),
            policies.groups.set(ORDERS, None),
            policies.flag.require_writable(),
        ):
            with pytest.raises(PoliciesReadOnly, match=FLAG):
                await write
        assert await policies.isolation.all() == (SHOP,)
        assert await policies.domains.all() == {"r": ("b:1",)}
        assert await policies.groups.group_of(ORDERS) == "g"
        await built.others[1].delete(FLAG)
        await policies.isolation.delete("shop")
