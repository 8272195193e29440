"""A writer to ZooKeeper forges what brokers say: accepted without required signatures, else not.

A real ZooKeeper, an anonymous client of it, and the readers of a broker.
"""

import random
from collections.abc import AsyncIterator

import pytest
from kazoo.client import KazooClient

from broker_ctl.balancer.planning.approvals import PlanStore
from broker_ctl.balancer.planning.rollout.runner import RolloutStore
from broker_ctl.broker.replicas.zk_queue import ZkQueue
from broker_ctl.clock import SystemClock
from broker_ctl.codec import encode
from broker_ctl.coordination.directives import Directives, Moves
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.cluster.directives import (
    AuditInfo,
    Drain,
    DrainTerms,
    MaintenanceWindow,
    Pause,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.planning.approval import ApprovalState
from broker_ctl.core.rollout.rollout import Rollout, RolloutTerms
from broker_ctl.lab.time import ManualClock
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.store.records.directives import (
    DrainRecord,
    PauseRecord,
    PlanProgress,
    PlanRecord,
    WindowRecord,
)
from broker_ctl.store.records.rollout import RolloutRecord
from broker_ctl.store.signed import SignedStore, ZnodeSignatures
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.support.replicas.instructions import instruct, replica_state
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

KEYS = ClusterKeys.of([bytes(range(32))])
ORDER = AuditInfo.of(1_000, "mallory", "")
DRAIN = DrainRecord(Drain(ORDER, 1, 0.0)).encode()
PAUSE = PauseRecord(Pause(ORDER)).encode()
WINDOW = WindowRecord(MaintenanceWindow(ORDER, DrainTerms(1))).encode()
BUNDLE = Bundle.parse("t/n/0x00000000_0xffffffff")
MOVE = MoveNode("m", BUNDLE, 1, "a:1", 42, "b:1", 1_000, 3).encode()
PLAN = PlanRecord("p", 1, ORDER, ()).encode()
PROGRESS = PlanProgress(ApprovalState.CARRYING_OUT, (), 1_000).encode()
INSTRUCTION = encode(instruct(replica_state("t-0", 1), broker_epoch=7, controller_epoch=1).to_row())
QUEUE = paths.queue(1)


@pytest.fixture
async def opened(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await store.start()
    await store.wait_connected()
    yield store
    await store.close()


@pytest.fixture(params=["accept", "require"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def refused() -> list[tuple[str, str]]:
    """Families and reasons."""
    return []


@pytest.fixture
def store(opened: ZooKeeperStore, mode: str, refused: list[tuple[str, str]]) -> SignedStore:
    signatures = ZnodeSignatures(
        KEYS,
        "c",
        SystemClock(),
        is_required=mode == "require",
        on_failure=lambda *failure: refused.append(failure),
    )
    return SignedStore(opened, signatures)


async def in_force(store: MetadataStore) -> tuple[bool, set[str]]:
    """Whether balancing is paused, and the drained brokers."""
    directives = Directives(store, rng=random.Random(1))
    await directives.start()
    try:
        return directives.pause is not None, set(directives.drains)
    finally:
        await directives.close()


async def test_a_forged_pause_and_a_forged_drain(
    store: SignedStore, attacker: KazooClient, mode: str, refused: list[tuple[str, str]]
) -> None:
    attacker.create(paths.PAUSE, PAUSE, makepath=True)
    attacker.create(paths.drain("b:1"), DRAIN, makepath=True)
    await store.create(paths.drain("a:1"), DRAIN, make_parents=True)
    expected = (True, {"a:1", "b:1"}) if mode == "accept" else (False, {"a:1"})
    assert await in_force(store) == expected
    assert set(refused) == {("pause", "unsigned"), ("drain", "unsigned")}


async def test_a_forged_maintenance_window(
    store: SignedStore, attacker: KazooClient, mode: str, refused: list[tuple[str, str]]
) -> None:
    attacker.create(paths.maintenance_window("b:1"), WINDOW, makepath=True)
    await store.create(paths.maintenance_window("a:1"), WINDOW, make_parents=True)
    directives = Directives(store, rng=random.Random(1))
    await directives.start()
    try:
        scheduled = set(directives.windows)
    finally:
        await directives.close()
    assert scheduled == ({"a:1", "b:1"} if mode == "accept" else {"a:1"})
    assert refused == [("maintenance", "unsigned")]


async def test_a_forged_rollout(
    store: SignedStore, attacker: KazooClient, mode: str, refused: list[tuple[str, str]]
) -> None:
    nodes = RolloutStore(store, Leadership(paths.LOADBALANCE_ELECTION, 0, lambda: None))
    await store.create(paths.LOADBALANCE_ELECTION.epoch_path, make_parents=True)
    rollout = Rollout.begin("r1", AuditInfo(1), RolloutTerms(), (("a:1",), ("b:1",)))
    attacker.create(paths.ROLLOUT, RolloutRecord(rollout).encode())
    assert await nodes.read() == (rollout if mode == "accept" else None)
    assert refused == [("rollout", "unsigned")]
    # A leader's own is believed, in its place.
    await nodes.write(rollout)
    assert await nodes.read() == rollout


async def test_a_pause_and_a_drain_that_have_ended_and_are_written_again(
    opened: ZooKeeperStore,
    store: SignedStore,
    attacker: KazooClient,
    mode: str,
    refused: list[tuple[str, str]],
) -> None:
    now_ms = SystemClock().wall_ms()
    two_minutes_ago = ManualClock(now_ms / 1000 - 120)
    earlier = SignedStore(
        opened,
        ZnodeSignatures(KEYS, "c", two_minutes_ago, is_required=True, on_failure=lambda *_: None),
    )
    await earlier.create(paths.PAUSE, PAUSE, make_parents=True)
    await earlier.create(paths.drain("a:1"), DRAIN, make_parents=True)
    captured = [attacker.get(path)[0] for path in (paths.PAUSE, paths.drain("a:1"))]
    await store.delete(paths.PAUSE)
    await store.delete(paths.drain("a:1"))
    assert await in_force(store) == (False, set())
    attacker.create(paths.PAUSE, captured[0])
    attacker.create(paths.drain("a:1"), captured[1])
    expected = (True, {"a:1"}) if mode == "accept" else (False, set())
    assert await in_force(store) == expected
    assert set(refused) == {("pause", "replayed"), ("drain", "replayed")}


async def test_a_drain_that_was_copied_to_the_path_of_another_broker(
    store: SignedStore, attacker: KazooClient, mode: str, refused: list[tuple[str, str]]
) -> None:
    await store.create(paths.drain("a:1"), DRAIN, make_parents=True)
    signed, _ = attacker.get(paths.drain("a:1"))
    attacker.create(paths.drain("b:1"), signed)
    _, drained = await in_force(store)
    assert drained == ({"a:1", "b:1"} if mode == "accept" else {"a:1"})
    assert set(refused) == {("drain", "wrong")}


async def test_a_forged_plan(store: SignedStore, attacker: KazooClient, mode: str) -> None:
    plans = PlanStore(store, Leadership(paths.LOADBALANCE_ELECTION, 1, lambda: None))
    attacker.create(paths.plan("p"), PLAN, makepath=True)
    attacker.create(paths.plan_progress("p"), PROGRESS)
    assert [found.record.plan_id for found in await plans.read_all()] == (
        ["p"] if mode == "accept" else []
    )


async def test_a_forged_move(store: SignedStore, attacker: KazooClient, mode: str) -> None:
    attacker.create(paths.move("m"), MOVE, makepath=True)
    moves = Moves(store, rng=random.Random(1))
    await moves.start()
    await moves.wait_synced()
    found = moves.of(BUNDLE)
    await moves.close()
    assert (found is not None) is (mode == "accept")


async def test_a_forged_instruction_is_dropped(
    store: SignedStore, attacker: KazooClient, mode: str
) -> None:
    obeyed: list[Instruction] = []

    async def handle(instruction: Instruction) -> None:
        obeyed.append(instruction)

    async def is_empty() -> bool:
        return await store.children(QUEUE) == []

    queue = ZkQueue(store, 1, handle, rng=random.Random(1))
    attacker.create(paths.queued(1, 1), INSTRUCTION, makepath=True)
    stop = await queue.watch()
    async with TaskScope("test") as tasks:
        tasks.start(queue.run(), "queue")
        await eventually(is_empty, what="an empty queue")
        forged = len(obeyed)
        await store.create(paths.queued(1, 2), INSTRUCTION)
        await eventually(is_empty, what="an empty queue")
    stop()
    assert (forged, len(obeyed)) == ((1, 2) if mode == "accept" else (0, 1))


@pytest.mark.parametrize(
    "path",
    [paths.registration("a:1"), paths.LOADBALANCE_ELECTION.node_path, paths.broker(1)],
)
async def test_a_signed_node_that_was_replaced_by_a_copy_of_another_session(
    path: str, store: SignedStore, attacker: KazooClient, mode: str, refused: list[tuple[str, str]]
) -> None:
    payload = b'{"version":1}'
    await store.create(path, payload, CreateMode.EPHEMERAL, make_parents=True)
    own = await store.get(path)
    assert own is not None
    assert (own.data, refused) == (payload, [])
    signed, _ = attacker.get(path)
    attacker.delete(path)
    attacker.create(path, signed, ephemeral=True)
    (copied,) = await store.get_many([path])
    assert copied is not None
    assert copied.data == (payload if mode == "accept" else b"")
    assert [reason for _, reason in refused] == ["wrong"]
