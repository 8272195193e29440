"""What a daemon does while one of its sessions ends, with one store and with two."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from broker_ctl.broker.lookup.lookup import Connect
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.model.names import Bundle, Namespace, Topic
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import ForeignNamespace
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation, Outcome, Versioned
from broker_ctl.store.records.policies import TenantInfo
from tests.support.clusters.sessions import parties
from tests.support.daemon.whole_daemon import Run, whole_daemon
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("public", "default")
WRITES: dict[str, Callable[[Run], Coroutine[Any, Any, object]]] = {
    "namespace": lambda run: run.shown.services.namespaces.create(NAMESPACE, bundles=4),
    "setting": lambda run: run.shown.services.configuration.set(
        "loadBalancerSheddingEnabled", "false"
    ),
    "pause": lambda run: run.shown.balancer.directives.begin_pause(AuditInfo(0, "", "")),
    "tenant": lambda run: run.shown.services.policies.tenants.create(
        "t", TenantInfo(allowed_clusters=("c",))
    ),
}


class Expiring:
    """Ends the session under the first write of an operator, before it is sent."""

    def __init__(self, store: MemoryStore, ensemble: MemoryEnsemble) -> None:
        self._store = store
        self._ensemble = ensemble
        self._write_many, self._create = store.write_many, store.create
        self.is_armed = True

    def expire(self, path: str) -> None:
        if not self.is_armed or path.startswith("/broker-ctl/leases"):
            return
        self.is_armed = False
        self._store.disconnect()
        asyncio.get_running_loop().call_later(0.5, self.come_back, self._store.session_id)

    def come_back(self, session_id: int) -> None:
        self._ensemble.expire(session_id)
        self._store.reconnect()

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        self.expire(operations[-1].path)
        return await self._write_many(operations, deadline_s)

    async def create(self, path: str, *args: Any, **options: Any) -> Versioned:
        self.expire(path)
        return await self._create(path, *args, **options)


async def over_an_expiry(
    store: MemoryStore, ensemble: MemoryEnsemble, work: Coroutine[Any, Any, object]
) -> None:
    expiring, first = Expiring(store, ensemble), store.session_id
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "write_many", expiring.write_many)
        patched.setattr(store, "create", expiring.create)
        await work
    assert not expiring.is_armed
    assert store.session_id != first


@pytest.mark.parametrize("kind", WRITES)
@in_virtual_time
async def test_a_write_that_owns_nothing_outlasts_the_session(kind: str) -> None:
    async with whole_daemon() as run:
        await run.wait_ready()
        await run.shown.services.policies.tenants.create(
            "public", TenantInfo(allowed_clusters=("c",))
        )
        await over_an_expiry(run.around.store, run.ensemble, WRITES[kind](run))
        await run.wait_ready()


async def serving(run: Run) -> Bundle:
    """With a namespace and a bundle of it."""
    await run.wait_ready()
    await run.shown.services.policies.tenants.create("public", TenantInfo(allowed_clusters=("c",)))
    await run.shown.services.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await run.shown.services.namespaces.ring(NAMESPACE)).bundles
    await run.assembly.services.ownership.acquire(bundle)
    return bundle


@in_virtual_time
async def test_the_end_of_the_configuration_s_session_disturbs_nothing() -> None:
    configuration = MemoryEnsemble()
    async with whole_daemon(configuration=configuration) as run:
        bundle = await serving(run)
        token = run.shown.services.ownership.owned()[bundle].token
        session_id = run.around.configuration.session_id
        work = run.shown.services.namespaces.create(Namespace("public", "other"))
        await over_an_expiry(run.around.configuration, configuration, work)
        assert run.around.configuration.session_id != session_id
        # Whatever it follows there is followed again: also what changes after that.
        other = MemoryStore(configuration)
        await other.start()
        path = "/admin/policies/public/third"
        await other.create(path, b"{}", make_parents=True)
        ring = await run.shown.services.namespaces.ring(Namespace("public", "third"))
        assert len(ring.bundles) > 0
        assert run.is_ready
        assert run.assembly.foundation.watcher.epoch == 1
        assert run.shown.services.ownership.owned()[bundle].token == token
        await other.close()


@in_virtual_time
async def test_without_the_configuration_store_a_broker_serves_on_and_comes_back_to_it() -> None:
    configuration = MemoryEnsemble()
    async with whole_daemon(configuration=configuration) as run:
        bundle = await serving(run)
        run.around.configuration.disconnect()
        await asyncio.sleep(60.0)
        configuration.expire(run.around.configuration.session_id)
        assert run.is_ready
        assert await run.shown.services.ownership.owner_of(bundle)
        run.around.configuration.reconnect()
        await run.shown.services.namespaces.create(Namespace("public", "late"))
        assert run.assembly.foundation.watcher.epoch == 1


@in_virtual_time
async def test_lookups_go_by_what_was_last_read_while_the_configuration_store_is_away() -> None:
    configuration, topic = MemoryEnsemble(), Topic.parse("persistent://public/default/t")
    async with whole_daemon(configuration=configuration) as run:
        await serving(run)
        find = run.shown.lookup.find
        assert isinstance(await find(topic, authoritative=False), Connect)
        assert await run.shown.services.partitioned_topics.partitions_of(topic) == 0
        run.around.configuration.disconnect()
        other, path = MemoryStore(configuration), paths.policies(NAMESPACE)
        await other.start()
        await other.set(path, b'{"replication_clusters":["far"]}')
        async with asyncio.timeout(1.0):
            assert isinstance(await find(topic, authoritative=False), Connect)
            assert await run.shown.services.partitioned_topics.partitions_of(topic) == 0
        await asyncio.sleep(60.0)
        async with asyncio.timeout(1.0):
            assert isinstance(await find(topic, authoritative=False), Connect)
        run.around.configuration.reconnect()
        await eventually(lambda: run.around.configuration.is_connected)
        with pytest.raises(ForeignNamespace):
            await find(topic, authoritative=False)
        await other.close()


@in_virtual_time
async def test_the_expiry_of_the_brokers_session_leaves_the_configuration_s_alone() -> None:
    async with whole_daemon(configuration=MemoryEnsemble()) as run:
        bundle = await serving(run)
        session_id = run.around.configuration.session_id
        run.ensemble.expire(run.around.store.session_id)
        await eventually(lambda: run.assembly.foundation.watcher.epoch == 2)
        await run.wait_ready()
        assert bundle in run.shown.services.ownership.owned()
        assert run.around.configuration.session_id == session_id


@in_virtual_time
async def test_with_the_number_of_a_broker_that_lives_nothing_is_ever_registered() -> None:
    ensemble = MemoryEnsemble()
    async with parties(ensemble=ensemble) as (holder,):
        own = LiveBroker(1, 0, "h0", 6650, holder.broker_id, "http://h0")
        await BrokerIds(
            holder.store, own, holder.deletions, holder.clock, 0.5, rng=random.Random(1)
        ).register()
        seen: list[str] = []
        await holder.store.watch(paths.REGISTRATIONS, lambda change: seen.append(change.path))
        with pytest.raises(ExceptionGroup) as met:
            async with whole_daemon("brokerId=1", ensemble=ensemble) as run:
                await run.wait_ready()
        assert "brokerId=1 is in use" in repr(met.value)
        assert [path for path in seen if path.endswith(":8080")] == []
