"""A daemon beside brokers that move their metadata to another store, on virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import AuthorityLost, ConnectionLoss
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Operation, Result, SetData
from tests.support.clusters.tenants import make_tenants
from tests.support.daemon.whole_daemon import Run, whole_daemon
from tests.support.time.waiting import eventually

SPACE = Namespace("public", "default")
# Longer than any period of a daemon in which it would write.
LONG_S = 300.0


class Recorded(MemoryEnsemble):
    """Servers that note what each session has written.

    Attributes:
        before: called with each transaction before it is committed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, Operation]] = []
        self.before: Callable[[Sequence[Operation]], None] = lambda _: None

    def write(self, session_id: int, operations: Sequence[Operation]) -> tuple[Result, ...]:
        self.before(operations)
        results = super().write(session_id, operations)
        self.written += [(session_id, operation) for operation in operations]
        return results


@dataclass
class Mixed:
    """A daemon, and the coordinator of a migration, by what it has written."""

    servers: Recorded
    run: Run
    coordinator: MemoryStore

    @property
    def own_writes(self) -> int:
        """Number of writes of all others than the coordinator."""
        other = self.coordinator.session_id
        return sum(1 for session_id, _ in self.servers.written if session_id != other)

    async def phase(self, name: str) -> None:
        await put(self.coordinator, name)

    async def participants(self) -> list[str]:
        return await self.coordinator.children(paths.MIGRATION_PARTICIPANTS)

    async def nobody_waits(self) -> bool:
        return not await self.participants()

    def authority_ms(self) -> int:
        return self.run.assembly.status.authority()[1]

    def owned(self) -> int:
        return len(self.run.assembly.services.ownership.owned())


async def put(store: MemoryStore, phase: str) -> None:
    data = json.dumps({"phase": phase, "targetUrl": "oxia://oxia:6648/pulsar"}).encode()
    if await store.exists(paths.METADATA_MIGRATION) is None:
        await store.create(paths.METADATA_MIGRATION, data, make_parents=True)
    else:
        await store.set(paths.METADATA_MIGRATION, data)


@asynccontextmanager
async def mixed(phase: str = "") -> AsyncIterator[Mixed]:
    servers = Recorded()
    coordinator = MemoryStore(servers)
    await coordinator.start()
    await coordinator.wait_connected()
    if phase:
        await put(coordinator, phase)
    async with whole_daemon("allowMixedCluster=true", ensemble=servers) as run:
        yield Mixed(servers, run, coordinator)
    await coordinator.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Mixed]:
    """A daemon that owns bundles."""
    async with mixed() as scene:
        await scene.run.wait_ready()
        await make_tenants(scene.run.assembly.foundation.configuration, "c", SPACE.tenant)
        services = scene.run.assembly.services
        await services.namespaces.create(SPACE, bundles=4)
        for bundle in (await services.namespaces.ring(SPACE)).bundles:
            await services.ownership.acquire(bundle)
        assert scene.owned() == 4
        yield scene


@in_virtual_time
async def test_the_coordinator_waits_until_nobody_acts_on_the_daemons_authority_any_more() -> None:
    async with serving() as scene:
        assert len(await scene.participants()) == 1
        clock = scene.run.around.clock
        granted_until_s = clock.now_s() + scene.authority_ms() / 1000
        await scene.phase("PREPARATION")
        await eventually(lambda: scene.authority_ms() == 0)
        assert clock.now_s() < granted_until_s - 1
        # A broker process may act on the former answer: until then, nothing is copied.
        while clock.now_s() < granted_until_s:
            assert len(await scene.participants()) == 1
            await asyncio.sleep(0.2)
        await eventually(scene.nobody_waits)


@in_virtual_time
async def test_the_coordinator_waits_for_every_write_that_is_under_way() -> None:
    async with serving() as scene, asyncio.TaskGroup() as tasks:
        gate = scene.run.assembly.foundation.gate
        assert gate is not None
        answered = asyncio.Event()
        tasks.create_task(gate._counted(answered.wait()), name="a write without an answer")
        await asyncio.sleep(0)
        await scene.phase("PREPARATION")
        await asyncio.sleep(LONG_S)
        assert scene.authority_ms() == 0
        assert len(await scene.participants()) == 1
        answered.set()
        await eventually(scene.nobody_waits)


@in_virtual_time
@pytest.mark.parametrize("last", ["COPYING", "COMPLETED"])
async def test_nothing_is_owned_and_nothing_written_until_the_migration_has_failed(
    last: str,
) -> None:
    async with serving() as scene:
        await scene.phase("PREPARATION")
        await eventually(scene.nobody_waits)
        await scene.phase(last)
        written = scene.own_writes
        await asyncio.sleep(LONG_S)
        assert scene.own_writes == written
        services = scene.run.assembly.services
        (bundle, *_) = (await services.namespaces.ring(SPACE)).bundles
        with pytest.raises(AuthorityLost, match=f"phase {last} in {paths.METADATA_MIGRATION}"):
            await services.ownership.owner_of(bundle)
        with pytest.raises(ConnectionLoss, match=f"not written: .*phase {last}"):
            await services.namespaces.create(Namespace("public", "other"), bundles=1)
        await asyncio.sleep(LONG_S)
        assert scene.own_writes == written
        readiness = scene.run.shown.readiness()
        assert not readiness.is_ready
        assert f"phase {last} in {paths.METADATA_MIGRATION}" in readiness.reason
        await scene.phase("FAILED")
        await scene.run.wait_ready()
        await eventually(lambda: scene.authority_ms() > 0)
        assert scene.owned() == 4
        assert len(await scene.participants()) == 1


@in_virtual_time
@pytest.mark.parametrize("phase", ["PREPARATION", "COPYING", "COMPLETED", "VERIFYING"])
async def test_a_daemon_that_starts_in_a_migration_writes_nothing(phase: str) -> None:
    async with mixed(phase) as scene:
        await eventually(lambda: f"phase {phase}" in scene.run.shown.readiness().reason)
        await asyncio.sleep(LONG_S)
        assert scene.own_writes == 0
        assert scene.authority_ms() == 0
        await scene.phase("FAILED")
        await scene.run.wait_ready()
        assert len(await scene.participants()) == 1


@in_virtual_time
async def test_a_payload_that_nobody_understands_counts_as_a_migration() -> None:
    async with mixed("NOT_STARTED") as scene:
        await scene.run.wait_ready()
        await scene.coordinator.set(paths.METADATA_MIGRATION, b"{")
        await eventually(lambda: "may be migrating" in scene.run.shown.readiness().reason)
        await eventually(scene.nobody_waits)
        await scene.coordinator.delete(paths.METADATA_MIGRATION)
        await scene.run.wait_ready()


@in_virtual_time
async def test_a_phase_that_comes_before_the_daemons_node_is_seen() -> None:
    """The coordinator lists the nodes once, and finds none: this daemon must not act."""
    servers = Recorded()
    coordinator = MemoryStore(servers)
    await coordinator.start()
    await coordinator.wait_connected()
    await put(coordinator, "NOT_STARTED")

    def begin(operations: Sequence[Operation]) -> None:
        (first, *_) = operations
        if isinstance(first, Create) and first.path.startswith(paths.MIGRATION_PARTICIPANTS):
            servers.before = lambda _: None
            data = json.dumps({"phase": "COPYING"}).encode()
            servers.write(coordinator.session_id, [SetData(paths.METADATA_MIGRATION, data)])

    servers.before = begin
    async with whole_daemon("allowMixedCluster=true", ensemble=servers) as run:
        await eventually(lambda: "phase COPYING" in run.shown.readiness().reason)
        await asyncio.sleep(LONG_S)
        others = [
            operation
            for session_id, operation in servers.written
            if session_id != coordinator.session_id
            and not operation.path.startswith(paths.MIGRATION_PARTICIPANTS.rpartition("/")[0])
        ]
        assert others == []
        assert await coordinator.children(paths.MIGRATION_PARTICIPANTS) == []
    await coordinator.close()


@in_virtual_time
async def test_a_new_session_claims_nothing_before_it_takes_part() -> None:
    async with serving() as scene:
        watcher = scene.run.assembly.foundation.watcher
        scene.servers.expire(scene.run.around.store.session_id)
        await scene.phase("PREPARATION")
        assert await scene.participants() == []
        written = scene.own_writes
        await eventually(lambda: watcher.epoch == 2)
        await eventually(lambda: "phase PREPARATION" in watcher.withheld)
        await asyncio.sleep(LONG_S)
        assert scene.own_writes == written
        # Nor does the thread write while the loop stands: it passes no gate.
        assert scene.run.around.store._stalls.write is None
        await scene.phase("FAILED")
        await eventually(lambda: scene.authority_ms() > 0)
        assert scene.owned() == 4


@in_virtual_time
async def test_the_first_write_of_each_session_is_that_of_the_participant() -> None:
    async with serving() as scene:
        former = scene.run.around.store.session_id
        watcher = scene.run.assembly.foundation.watcher
        scene.servers.expire(former)
        await eventually(lambda: watcher.epoch == 2 and scene.authority_ms() > 0)
        later = scene.run.around.store.session_id
        assert later != former
        for session in (former, later):
            first = next(made for by, made in scene.servers.written if by == session)
            # Or what it lies in.
            assert f"{paths.MIGRATION_PARTICIPANTS}/id-".startswith(first.path), first


@in_virtual_time
async def test_a_daemon_that_is_cut_off_keeps_the_coordinator_waiting_until_its_lease_is_over() -> (
    None
):
    async with serving() as scene:
        clock, store = scene.run.around.clock, scene.run.around.store
        granted_until_s = clock.now_s() + scene.authority_ms() / 1000
        store.disconnect()
        await scene.phase("PREPARATION")
        await eventually(scene.nobody_waits, deadline_s=LONG_S)
        assert clock.now_s() >= granted_until_s
        assert scene.authority_ms() == 0
        store.reconnect()
        await eventually(lambda: "phase PREPARATION" in scene.run.shown.readiness().reason)


@in_virtual_time
async def test_a_participants_node_that_an_operator_deletes_is_made_again() -> None:
    async with mixed() as scene:
        await scene.run.wait_ready()
        (name,) = await scene.participants()
        await scene.coordinator.delete(f"{paths.MIGRATION_PARTICIPANTS}/{name}")
        await eventually(scene.participants)
        await scene.phase("PREPARATION")
        await eventually(scene.nobody_waits)


@in_virtual_time
async def test_a_daemon_that_is_stopped_in_a_migration_writes_nothing() -> None:
    async with serving() as scene:
        await scene.phase("PREPARATION")
        await eventually(scene.nobody_waits)
        written = scene.own_writes
        scene.run.signals.ask()
        await scene.run.daemon
        assert scene.own_writes == written
