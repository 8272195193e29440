"""Each request of a session has a number of its own, and a reply is that of its request.

Held by real servers whose commits are slow: `test_held_acks.py`.
"""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker_ctl.errors import Ambiguous, ConnectionLoss, StoreError
from broker_ctl.store.interface import Create, CreateMode, Delete, SetData
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection, StallFrame, Xids
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import STAT, FakeZooKeeper, Peer, node_reply, reply

INT = struct.Struct("!i")
HEADER = struct.Struct("!i?i")
STATED = STAT.pack(5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 5)
MOST = 0x7FFFFFFF
Decode = Callable[[bytes, int], object]


def text(value: str) -> bytes:
    return INT.pack(len(value)) + value.encode()


def result(kind: int, body: bytes = b"") -> bytes:
    return HEADER.pack(kind, False, 0) + body  # noqa: FBT003  # as in the protocol


END = HEADER.pack(-1, True, -1)  # noqa: FBT003


def test_numbers_grow_from_1_and_begin_again_only_after_the_largest() -> None:
    xids = Xids()
    assert [xids.next() for _ in range(3)] == [1, 2, 3]
    xids = Xids(MOST - 2)
    assert [xids.next() for _ in range(3)] == [MOST - 1, MOST, 1]


async def test_the_thread_numbers_its_writes_in_the_same_sequence() -> None:
    xids = Xids(40)
    connection = Connection(lambda _: None, lambda _: None, lambda: None, 1000, xids)
    write = StallFrame(bytes(8), 1.0, lambda _sent_s, _arrived_s: None)
    # There is no socket yet; a number that was taken is not given to another request.
    assert not connection.stall_writes.send(write)
    assert xids.next() == 42


class Counting:
    """Notes the numbers of the requests of each connection; the first ends after three."""

    def __init__(self) -> None:
        self.xids: list[list[int]] = []

    async def script(self, peer: Peer) -> None:
        peer.welcome(peer.connect.session_id or 7)
        seen: list[int] = []
        self.xids.append(seen)
        while not (len(self.xids) == 1 and len(seen) == 3):
            request = await peer.request()
            seen.append(request.xid)
            peer.send(node_reply(request.xid, b""))


async def ask(store: ZooKeeperStore, times: int) -> None:
    for _ in range(times):
        await store.get("/a")


async def test_a_connection_counts_on_from_the_one_before(open_store: OpenStore) -> None:
    counting = Counting()
    async with FakeZooKeeper.playing(counting.script) as server:
        store = await open_store(server.address)
        await ask(store, 5)
        await store.close(end_session=False)
    first, second = counting.xids
    assert first == [1, 2, 3]
    # The fourth may have been lost with the first connection, and is asked again under a new one.
    assert second[-1] == second[0] + 1
    assert second[0] > 3


async def test_a_process_that_takes_a_session_up_again_counts_on(open_store: OpenStore) -> None:
    counting = Counting()
    async with FakeZooKeeper.playing(counting.script) as server:
        former = await open_store(server.address)
        await ask(former, 3)
        await former.close(end_session=False)
        saved = former.saved_session
        options = replace(former._options, resumed=saved)
        later = await open_store(server.address, options)
        await ask(later, 2)
        await later.close(end_session=False)
    assert saved.session_id == 7
    first, second = counting.xids
    assert first == [1, 2, 3]
    assert min(second) > saved.last_xid >= max(first)


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (wire.wire_write(Create("/a", b""), b""), text("/b") + STATED),
        (wire.wire_write(Create("/a", b""), b"", "/root"), text("/rood/a") + STATED),
        (
            wire.wire_write(Create("/a-", b"", CreateMode.SEQUENTIAL), b""),
            text("/b-0000000001") + STATED,
        ),
        (
            wire.wire_multi([Create("/a", b"")], b""),
            result(wire.CREATE_2, text("/b") + STATED) + END,
        ),
        (wire.wire_multi([SetData("/a", b"")], b""), result(wire.DELETE) + END),
        (wire.wire_multi([Delete("/a")], b""), result(wire.DELETE) + result(wire.DELETE) + END),
        (wire.wire_multi([Delete("/a"), Delete("/b")], b""), result(wire.DELETE) + END),
        (wire.sync("/a"), text("/b")),
    ],
    ids=[
        "the node of another create",
        "a node of another chroot",
        "the node of another sequential create",
        "the node of another transaction",
        "another operation",
        "more results",
        "fewer results",
        "the path of another sync",
    ],
)
async def test_a_reply_to_another_request_ends_the_connection(
    open_store: OpenStore, call: wire.Call[object], body: bytes
) -> None:
    async def script(peer: Peer) -> None:
        peer.welcome(7)
        request = await peer.request()
        peer.send(reply(request.xid, 5, 0, body))
        # Its pings are answered: nothing else would end it.
        await peer.request()

    async with FakeZooKeeper.playing(script) as server:
        store = await open_store(server.address)
        with pytest.raises(StoreError, match="another request") as caught:
            await store._session.call(call, 60.0)
        # What was done is not known; the next connection shows it.
        assert isinstance(caught.value, Ambiguous if call.is_write else ConnectionLoss)
        await eventually(lambda: len(server.connects) == 2)
        await store.close(end_session=False)


async def test_replies_of_a_real_server_are_those_of_their_requests(
    open_store: OpenStore, zookeeper: SharedEnsemble, chroot: str
) -> None:
    """Each kind of create, whose result has one type; what a server refuses has another."""
    options = replace((await open_store(zookeeper.connect_string))._options, chroot=chroot)
    store = await open_store(zookeeper.connect_string, options)
    modes = [mode for mode in CreateMode if mode is not CreateMode.TTL]
    creates = [Create(f"/{mode.name}-", b"", mode) for mode in modes]
    made = await store.multi([*creates, SetData("/PERSISTENT-", b"1"), Delete("/CONTAINER-")])
    assert len(made) == len(modes) + 2
    for create in creates:
        await store.multi([Create(create.path + "again", b"", create.mode)])
    assert store.is_connected
