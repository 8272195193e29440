"""Grants in memory are those that the store has."""

import random

import pytest

from broker_ctl.broker.policies.tenants import StoredGrants
from broker_ctl.codec import encode
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, ManualClock
from broker_ctl.security.authorization import Grants, Resource
from broker_ctl.store import paths
from broker_ctl.store.watched_cache import CacheRules
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("t", "ns")
TOPIC = Resource.of_topic(Topic("persistent", NAMESPACE, "x"))


def policies(role: str) -> bytes:
    return encode({"auth_policies": {"namespace_auth": {role: ["consume"]}}})


def granted(grants: Grants | None) -> object:
    return None if grants is None else (grants.admin_roles, grants.namespace)


async def test_grants_are_recalled_once_read_until_they_change() -> None:
    store = MemoryStore(MemoryEnsemble(), session_timeout_s=20.0)
    await store.start()
    grants = StoredGrants(store, LoopClock(), CacheRules(), rng=random.Random(1))
    await grants.start()
    try:
        missing = Resource.of_topic(Topic("persistent", Namespace("no", "ns"), "x"))
        assert await grants.of(missing) == Grants()
        await store.create(paths.tenant("t"), encode({"adminRoles": ["admin"]}), make_parents=True)
        await store.create(paths.policies(NAMESPACE), policies("reader"))
        assert grants.recall(TOPIC) is None
        read = await grants.of(TOPIC)
        assert granted(grants.recall(TOPIC)) == granted(read)
        assert read.admin_roles == {"admin"}
        assert "reader" in read.namespace.namespace
        # A tenant is looked at too rarely.
        assert grants.recall(Resource.of_tenant("t")) is None
        recalled = grants.recall(TOPIC)
        assert recalled is not None
        assert grants.are_current(recalled)
        # Those that were read are nobody's to recall.
        assert not grants.are_current(read)
        versions = [grants.version()]
        await store.set(paths.policies(NAMESPACE), policies("other"))
        await eventually(lambda: grants.recall(TOPIC) is None)
        versions.append(grants.version())
        await grants.of(TOPIC)
        await store.set(paths.tenant("t"), encode({"adminRoles": []}))
        await eventually(lambda: grants.recall(TOPIC) is None)
        versions.append(grants.version())
        assert versions == sorted(set(versions))
        assert not grants.are_current(recalled)
        assert "reader" not in (await grants.of(TOPIC)).namespace.namespace
    finally:
        await grants.close()
        await store.close()
    assert grants.recall(TOPIC) is None


async def test_grants_that_are_recalled_for_long_are_read_again_meanwhile() -> None:
    store = MemoryStore(MemoryEnsemble(), session_timeout_s=20.0)
    await store.start()
    clock, rules = ManualClock(), CacheRules(refresh_s=10.0, expiry_s=20.0)
    grants = StoredGrants(store, clock, rules, rng=random.Random(1))
    await grants.start()
    try:
        await store.create(paths.tenant("t"), encode({"adminRoles": ["admin"]}), make_parents=True)
        await store.create(paths.policies(NAMESPACE), policies("reader"))
        read = await grants.of(TOPIC)
        loads = [cache.loads for cache in grants.caches.values()]
        assert grants.recall(TOPIC) is grants.recall(TOPIC)
        clock.time_s += rules.refresh_s
        assert granted(grants.recall(TOPIC)) == granted(read)
        caches = list(grants.caches.values())
        await eventually(lambda: all(c.loads > n for c, n in zip(caches, loads, strict=True)))
    finally:
        await grants.close()
        await store.close()


@pytest.mark.parametrize("data", [b"{", b'{"auth_policies": 3}'])
async def test_corrupt_grants_are_never_recalled(data: bytes) -> None:
    store = MemoryStore(MemoryEnsemble(), session_timeout_s=20.0)
    await store.start()
    grants = StoredGrants(store, LoopClock(), CacheRules(), rng=random.Random(1))
    await grants.start()
    try:
        await store.create(paths.tenant("t"), encode({"adminRoles": ["admin"]}), make_parents=True)
        await store.create(paths.policies(NAMESPACE), data)
        assert await grants.of(TOPIC) == Grants()
        assert grants.recall(TOPIC) is None
    finally:
        await grants.close()
        await store.close()
