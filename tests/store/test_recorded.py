"""One seeded script on three real servers and on the memory store: both must answer alike.

Compared is all that a client can see: results, errors, versions, who owns an ephemeral node, the
order of zxids, and the events in their order.
"""

import asyncio
import random
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from broker_ctl.errors import MultiFailed, StoreError
from broker_ctl.store.interface import (
    ANY_VERSION,
    Check,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.contract.backends import Backend, MemoryBackend, ZooKeeperBackend
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble, fresh_chroot
from tests.support.zookeeper.session_faults import expire_session

SESSIONS = 3
STEPS = 150
PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1"]
MODES = [CreateMode.PERSISTENT, CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL, CreateMode.CONTAINER]


class EnsembleBackend(ZooKeeperBackend):
    """A backend of several servers; sessions are expired at one of them."""

    def __init__(self, hosts: str, chroot: str) -> None:
        super().__init__(hosts, chroot)
        self._first = hosts.partition(",")[0]

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await expire_session(self._first, store.session_id, store.saved_session.password)


class Recorder:
    """Sessions on one backend, and their results in terms that do not depend on it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.stores: list[MetadataStore] = []
        self.heard: list[list[tuple[str, str]]] = [[] for _ in range(SESSIONS)]
        self._zxids: list[int] = []

    async def open(self) -> None:
        for number in range(SESSIONS):
            store = await self._backend.open(session_timeout_s=6.0, operation_timeout_s=10.0)
            self.stores.append(store)
            await store.watch("/", lambda event, number=number: self._note(number, event))  # type: ignore[misc]

    def _note(self, number: int, event: Notification) -> None:
        self.heard[number].append((event.change.name, event.path))

    def owner(self, stat: Stat) -> object:
        """The number of the session that owns an ephemeral node."""
        if not stat.is_ephemeral:
            return None
        ids = [store.session_id for store in self.stores]
        return ids.index(stat.ephemeral_owner) if stat.ephemeral_owner in ids else "ended"

    def seen(self, value: object) -> object:
        """A result without what two servers can never have in common: zxids and times."""
        match value:
            case Versioned(path=path, data=data, stat=stat):
                return path, data, self.seen(stat)
            case Stat():
                order = [value.czxid == value.mzxid, value.mzxid < value.pzxid]
                counts = value.version, value.cversion, value.data_length, value.children_count
                self._zxids.append(value.czxid)
                return counts, self.owner(value), order
            case tuple() | list():
                return [self.seen(one) for one in value]
            case MultiFailed():
                return "MultiFailed", value.index, type(value.cause).__name__
            case StoreError():
                return type(value).__name__
        return value

    async def outcome(self, work: Awaitable[object]) -> object:
        try:
            return self.seen(await work)
        except StoreError as error:
            return self.seen(error)

    async def expire(self, number: int) -> object:
        store = self.stores[number]
        before = store.session_id
        await self._backend.expire(store)
        await eventually(lambda: store.session_id not in {0, before}, what="a new session")
        return "expired"

    async def settle(self) -> None:
        """Wait until every session has the events of all writes."""
        for store in self.stores:
            await store.wait_connected()
            await store.sync("/")
        await asyncio.sleep(0)


def operation(rng: random.Random) -> Operation:
    path, data = rng.choice(PATHS), rng.randbytes(3)
    version = rng.choice([ANY_VERSION, 0, 1])
    operations: list[Operation] = [
        Create(path, data, rng.choice(MODES)),
        SetData(path, data, version),
        Delete(path, version),
        Check(path, version),
    ]
    return rng.choice(operations)


def script(seed: int) -> list[tuple[str, int, Any]]:
    """The steps: an action, its session and its arguments."""
    rng = random.Random(seed)
    verbs = ["create", "create", "set", "delete", "multi", "get", "children", "get_many"]
    steps: list[tuple[str, int, Any]] = []
    for number in range(STEPS):
        verb, session = rng.choice(verbs), rng.randrange(SESSIONS)
        path, version = rng.choice(PATHS), rng.choice([ANY_VERSION, 0, 1])
        arguments: Sequence[Any]
        match verb:
            case "create":
                arguments = (path, rng.randbytes(3), rng.choice(MODES))
            case "set":
                arguments = (path, rng.randbytes(3), version)
            case "delete":
                arguments = (path, version)
            case "multi":
                arguments = ([operation(rng) for _ in range(rng.randrange(1, 4))],)
            case "get_many":
                arguments = (PATHS,)
            case _:
                arguments = (path,)
        steps.append((verb, session, arguments))
        if number % 60 == 59:
            steps.append(("expire", rng.randrange(SESSIONS), ()))
    return steps


async def record(backend: Backend, seed: int) -> dict[str, object]:
    recorder = Recorder(backend)
    await recorder.open()
    answers: list[object] = []
    for verb, session, arguments in script(seed):
        if verb == "expire":
            count = len(recorder.heard[session])
            answers.append(await recorder.expire(session))
            await recorder.settle()
            # Which events it gets of its own end depends on when its connection was closed.
            del recorder.heard[session][count:]
            continue
        store = recorder.stores[session]
        # The connected server may lag behind an answer to another session.
        await store.sync("/")
        answers.append(await recorder.outcome(getattr(store, verb)(*arguments)))
    await recorder.settle()
    await backend.close()
    return {"answers": answers, "heard": recorder.heard}


@pytest.mark.parametrize("seed", range(3))
async def test_three_real_servers_and_memory_answer_alike(
    ensemble3: SharedEnsemble, seed: int
) -> None:
    memory = await record(MemoryBackend(), seed)
    with fresh_chroot(ensemble3.connect_string) as chroot:
        real = await record(EnsembleBackend(ensemble3.connect_string, chroot), seed)
    steps = script(seed)
    for step, ours, theirs in zip(steps, memory["answers"], real["answers"], strict=True):  # type: ignore[call-overload]
        assert ours == theirs, step
    assert memory["heard"] == real["heard"]
