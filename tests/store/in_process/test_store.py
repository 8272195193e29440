"""The store inside the process: what lasts, what a hold is, and what is projected into it."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    SessionExpired,
    StoreClosed,
    TooLarge,
)
from broker_ctl.store.in_process.keeper import EMPTY, StateImage
from broker_ctl.store.in_process.store import InProcessStore, Projected
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    SessionEvent,
    SetData,
)
from tests.support.time.waiting import eventually

PAUSE = "/broker-ctl/pause"


@dataclass
class Notebook:
    """Keeps a state in memory; a test says when another process has it."""

    state: bytes = EMPTY
    most_bytes: int = 1 << 20
    taken: bool = False
    is_unsure: bool = False
    renewals: int = 0
    is_free: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.is_free.set()

    async def read(self) -> bytes:
        return self.state

    async def acquire(self, timeout_s: float) -> bytes:
        assert timeout_s == 10.0
        await self.is_free.wait()
        self.taken = False
        return self.state

    async def renew(self) -> None:
        self.renewals += 1
        if self.taken:
            raise SessionExpired("another has it")

    async def write(self, state: bytes) -> None:
        if self.taken:
            raise SessionExpired("another has it")
        self.state = state
        if self.is_unsure:
            raise Ambiguous("no answer")

    async def release(self) -> None:
        self.is_free.set()

    async def close(self) -> None:
        return None


def store_on(notebook: Notebook, seed: int = 1) -> InProcessStore:
    return InProcessStore(notebook, SystemClock(), random.Random(seed), session_timeout_s=10.0)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
async def store(notebook: Notebook) -> AsyncIterator[InProcessStore]:
    one = store_on(notebook)
    await one.start()
    await one.wait_connected()
    yield one
    await one.close()


async def test_own_nodes_outlive_the_process_with_their_versions(
    notebook: Notebook, store: InProcessStore
) -> None:
    await store.create(PAUSE, b"one", make_parents=True)
    await store.set(PAUSE, b"two")
    await store.create("/broker-ctl/leader", b"me", CreateMode.EPHEMERAL)
    await store.create("/broker-ctl/leases/me", b"beat", make_parents=True)
    known = await store.get(PAUSE)
    await store.close()
    other = store_on(notebook, 2)
    await other.start()
    await other.wait_connected()
    assert await other.get(PAUSE) == known
    assert await other.children("/broker-ctl") == ["pause"]
    assert other.last_zxid >= known.stat.mzxid if known else False
    await other.set(PAUSE, b"three", 1)
    with pytest.raises(BadVersion):
        await other.set(PAUSE, b"four", 1)
    await other.delete(PAUSE)
    assert b"pause" not in notebook.state
    await other.close()


async def test_a_write_is_durable_before_it_shows(
    notebook: Notebook, store: InProcessStore
) -> None:
    heard: list[Notification] = []
    shown: list[bool] = []

    def listen(notification: Notification) -> None:
        heard.append(notification)
        shown.append(b"pause" in notebook.state)

    stop = await store.watch("/broker-ctl", listen)
    await store.create(PAUSE, b"one", make_parents=True)
    assert shown == [False, True]  # /broker-ctl itself, then the node
    stop()
    await store.delete(PAUSE)
    assert [notification.path for notification in heard] == ["/broker-ctl", PAUSE]


async def test_transactions_are_all_or_nothing(store: InProcessStore) -> None:
    await store.create(PAUSE, b"one", make_parents=True)
    with pytest.raises(MultiFailed) as failed:
        await store.multi([Create("/broker-ctl/x"), Check(PAUSE, 7)])
    assert (failed.value.index, type(failed.value.cause)) == (1, BadVersion)
    assert await store.exists("/broker-ctl/x") is None
    await store.multi([Check(PAUSE, 0), SetData(PAUSE, b"two"), Create("/broker-ctl/x")])
    await store.multi([Delete("/broker-ctl/x")])
    with pytest.raises(NodeExists):
        await store.create(PAUSE)
    with pytest.raises(NoNode):
        await store.create("/broker-ctl/a/b")


async def test_a_heartbeat_renews_the_hold_and_is_not_kept(
    notebook: Notebook, store: InProcessStore
) -> None:
    await store.create("/broker-ctl/leases/me", b"1", make_parents=True)
    state, renewals = notebook.state, notebook.renewals
    await store.set("/broker-ctl/leases/me", b"2")
    assert (notebook.state, notebook.renewals) == (state, renewals + 1)


@pytest.mark.parametrize("is_heartbeat", [True, False])
async def test_a_lost_hold_ends_the_session_and_what_it_owned(
    notebook: Notebook, store: InProcessStore, *, is_heartbeat: bool
) -> None:
    events: list[SessionEvent] = []
    store.listen(events.append)
    path = "/broker-ctl/leases/me" if is_heartbeat else PAUSE
    await store.create(path, b"1", make_parents=True)
    await store.create("/broker-ctl/leader", b"me", CreateMode.EPHEMERAL)
    first = store.session_id
    notebook.taken = True
    notebook.is_free.clear()
    with pytest.raises(SessionExpired):
        await store.set(path, b"2")
    await eventually(lambda: events == [SessionEvent.EXPIRED], what="the end of the session")
    assert await store.exists("/broker-ctl/leader") is None
    with pytest.raises(SessionExpired):
        await store.create("/broker-ctl/x")
    # The successor has changed it meanwhile.
    notebook.state = StateImage((), store.last_zxid + 7).encode()
    notebook.is_free.set()
    await store.wait_connected()
    assert events == [SessionEvent.EXPIRED, SessionEvent.CONNECTED]
    assert store.session_id not in {0, first}
    assert await store.exists(PAUSE) is None


async def test_a_write_without_an_answer_is_ambiguous_and_the_state_is_read_again(
    notebook: Notebook, store: InProcessStore
) -> None:
    await store.create("/broker-ctl/x", make_parents=True)
    session_id, notebook.is_unsure = store.session_id, True
    with pytest.raises(Ambiguous) as lost:
        await store.create(PAUSE, b"one")
    assert lost.value.session_id == session_id
    notebook.is_unsure = False
    await eventually(lambda: store.session_id not in {0, session_id}, what="another session")
    assert await store.exists(PAUSE) is not None


async def test_a_state_that_is_too_large_or_not_ours_is_refused(notebook: Notebook) -> None:
    notebook.most_bytes = 1000
    store = store_on(notebook)
    await store.start()
    await store.wait_connected()
    with pytest.raises(TooLarge):
        await store.create(PAUSE, b"x" * 1000, make_parents=True)
    await store.create("/broker-ctl/small", make_parents=True)
    await store.close()
    for state, error in ((b"{}", NewerVersion), (b'{"version": 2}', NewerVersion)):
        notebook.state = state
        refused = store_on(notebook)
        await refused.start()
        with pytest.raises(error):
            await refused.wait_connected()
        await refused.close()
    with pytest.raises(CorruptRecord):
        StateImage.decode(b'{"version": 1, "zxid": 1, "nodes": [{"path": "/x/../y"}]}')
    foreign = (
        StateImage.of([], 1)
        .encode()
        .replace(
            b'"nodes":[]',
            b'"nodes":[{"path":"/namespace","data":"","stat":[0,0,0,0,0,0,0,0,0,0,0]}]',
        )
    )
    with pytest.raises(CorruptRecord, match="not part of it"):
        StateImage.decode(foreign)


async def test_projected_nodes_come_change_and_go(store: InProcessStore) -> None:
    heard: list[tuple[str, str]] = []
    await store.watch("/namespace", lambda n: heard.append((n.change.name, n.path)))
    await store.project("/namespace", {"/namespace/a": Projected(b"1", 7)})
    first = await store.get("/namespace/a")
    await store.project("/namespace", {"/namespace/a": Projected(b"2", 7)})
    same = await store.get("/namespace/a")
    await store.project("/namespace", {"/namespace/a": Projected(b"2", 8)})
    other = await store.get("/namespace/a")
    assert first is not None
    assert same is not None
    assert other is not None
    assert first.stat.czxid == same.stat.czxid < other.stat.czxid
    assert (first.stat.ephemeral_owner, other.stat.ephemeral_owner) == (7, 8)
    heard.clear()
    await store.project("/namespace", {"/namespace/a": Projected(b"2", 8)})
    assert heard == []
    await store.project("/namespace", {"/namespace/b/c": Projected(b"3")})
    assert ("DELETED", "/namespace/a") in heard
    assert await store.children("/namespace") == ["b"]
    await store.project("/namespace", {})
    assert await store.exists("/namespace") is None


async def test_a_sync_has_the_cluster_read_again(store: InProcessStore) -> None:
    asked: list[str] = []

    async def refresh(path: str) -> None:
        asked.append(path)

    store.refresh = refresh
    await store.sync("/namespace/a")
    assert asked == ["/namespace/a"]


async def test_a_closed_store_refuses_all(store: InProcessStore) -> None:
    await store.close()
    for call in (store.get("/x"), store.create("/x"), store.sync("/x"), store.wait_connected()):
        with pytest.raises(StoreClosed):
            await call
