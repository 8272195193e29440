"""One connection to a fake server that also violates the protocol."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from broker_ctl import errors
from broker_ctl.addresses import look_up
from broker_ctl.store.interface import Change, Create, Notification, SetData, Versioned
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection, Xids
from tests.support.time.waiting import eventually
from tests.support.zookeeper.fake_zookeeper import (
    FakeZooKeeper,
    Peer,
    Script,
    frame,
    node_reply,
    reply,
)

MAX_BYTES = 0xFFFFF
CONNECT = wire.connect(10_000, 0, bytes(16), 0)


class Heard:
    """What a connection reported to its owner."""

    def __init__(self) -> None:
        self.events: list[Notification] = []
        self.zxids: list[int] = []
        self.rooms = 0

    def room(self) -> None:
        self.rooms += 1


async def open_to(address: str, heard: Heard | None = None) -> Connection:
    heard = heard or Heard()
    host, _, port = address.partition(":")
    (server,) = await look_up(host, int(port), 30.0)
    connection, _ = await Connection.open(
        server,
        CONNECT,
        on_event=heard.events.append,
        on_zxid=heard.zxids.append,
        on_room=heard.room,
        max_frame_bytes=MAX_BYTES,
        xids=Xids(),
    )
    return connection


Play = Callable[[Script], Awaitable[Connection]]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def play(heard: Heard) -> AsyncIterator[Play]:
    """A connection to a server that opens a session and then goes on by a script."""
    async with AsyncExitStack() as stack:

        async def start(script: Script) -> Connection:
            async def welcome(peer: Peer) -> None:
                peer.welcome(1)
                await script(peer)

            fake = await stack.enter_async_context(FakeZooKeeper.playing(welcome))
            connection = await open_to(fake.address, heard)
            stack.callback(connection.abort, "the test is over")
            return connection

        yield start


def ask(connection: Connection, call: wire.Call[Any]) -> "asyncio.Future[Any]":
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.send(call, future)
    return future


async def failure(future: Awaitable[object]) -> errors.StoreError:
    with pytest.raises(errors.StoreError) as caught:
        async with asyncio.timeout(60):
            await future
    return caught.value


async def test_a_reply_out_of_order_ends_the_connection(play: Play) -> None:
    async def script(peer: Peer) -> None:
        first, second = await peer.request(), await peer.request()
        peer.send(node_reply(second.xid, b"2") + node_reply(first.xid, b"1"))
        await peer.wait_end()

    connection = await play(script)
    first, second = ask(connection, wire.wire_get("/1")), ask(connection, wire.wire_get("/2"))
    assert isinstance(await failure(first), errors.ConnectionLoss)
    assert isinstance(await failure(second), errors.ConnectionLoss)
    assert "out of order" in str(await connection.wait_closed())


async def test_a_reply_without_a_request_ends_the_connection(play: Play) -> None:
    async def script(peer: Peer) -> None:
        peer.send(node_reply(1, b""))
        await peer.wait_end()

    connection = await play(script)
    assert "out of order" in str(await connection.wait_closed())


async def test_numbers_of_requests_wrap_around_and_stay_positive(play: Play) -> None:
    xids: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            xids.append(request.xid)
            peer.send(node_reply(request.xid, str(request.xid).encode()))

    connection = await play(script)
    connection._xids = Xids(0x7FFFFFFD)
    answers = [ask(connection, wire.wire_get("/a")) for _ in range(4)]
    found = [(await answer).data for answer in answers]
    assert xids == [0x7FFFFFFE, 0x7FFFFFFF, 1, 2]
    assert found == [str(xid).encode() for xid in xids]


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(frame(b"\0\0\0"), id="no header"),
        pytest.param(reply(-1, body=b"\0\0\0\1"), id="event cut short"),
        pytest.param(reply(-1, body=struct.pack("!iii", 1, 3, 9) + b"/a"), id="path cut short"),
        pytest.param(
            reply(-1, body=struct.pack("!iii", 1, 3, 2) + b"\xff\xff"),
            id="path that is not text",
        ),
        pytest.param(struct.pack("!i", -1), id="negative length"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
    ],
)
async def test_a_malformed_reply_ends_the_connection(play: Play, garbage: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(garbage)
        await peer.wait_end()

    connection = await play(script)
    answer = ask(connection, wire.wire_write(SetData("/a", b""), b""))
    assert isinstance(await failure(answer), errors.Ambiguous)
    why = str(await connection.wait_closed())
    assert "not a ZooKeeper server" in why or "a frame of" in why


@pytest.mark.parametrize("chunk", [1, 3])
async def test_a_frame_that_is_too_long_ends_the_connection_before_it_is_collected(
    play: Play,
    chunk: int,
) -> None:
    # The length arrives in pieces: it must be judged as soon as it is whole.
    async def script(peer: Peer) -> None:
        await peer.request()
        length = struct.pack("!i", 0x7FFFFFFF)
        for start in range(0, len(length), chunk):
            peer.send(length[start : start + chunk])
            await peer._writer.drain()
            await asyncio.sleep(0.01)
        await peer.wait_end()

    connection = await play(script)
    read = ask(connection, wire.wire_get("/large"))
    waiting = ask(connection, wire.wire_get("/b"))
    # To ask for it again would end every connection: the read fails.
    assert isinstance(await failure(read), errors.TooLarge)
    assert isinstance(await failure(waiting), errors.ConnectionLoss)
    assert "frame of 2147483647 bytes" in str(await connection.wait_closed())


class CountingBuffer(bytearray):
    """Counts how often it is emptied, and of how many bytes in all."""

    emptied = 0
    emptied_bytes = 0

    def clear(self) -> None:
        self.emptied += 1
        self.emptied_bytes += len(self)
        super().clear()


@pytest.mark.parametrize("size", [MAX_BYTES - 200, MAX_BYTES, MAX_BYTES + 1000])
async def test_a_large_reply_is_collected_from_many_reads_without_a_copy_at_each(
    play: Play,
    size: int,
) -> None:
    connection = await play(lambda peer: peer.wait_end())
    connection._arrivals._cutter._partial = buffer = CountingBuffer()
    large, following = (
        ask(connection, wire.wire_get("/large")),
        ask(connection, wire.wire_get("/next")),
    )
    data = bytes(range(256)) * (size // 256)
    whole = node_reply(1, data) + node_reply(2, b"next")
    chunk = 1000
    for start in range(0, len(whole), chunk):
        connection.data_received(whole[start : start + chunk])
    assert (await large).data == data
    assert (await following).data == b"next"
    # Each byte is appended once, and taken out with all the others: no read copies the whole.
    assert connection._arrivals._cutter._partial is buffer
    assert buffer.emptied <= 2
    assert buffer.emptied_bytes <= len(whole)


async def test_frames_may_be_cut_anywhere(play: Play, heard: Heard) -> None:
    connection = await play(lambda peer: peer.wait_end())
    whole = node_reply(1, b"1") + node_reply(2, b"") + node_reply(3, b"333")
    for chunk in range(1, len(whole) + 1):
        connection._xids = Xids()
        answers = [ask(connection, wire.wire_get("/a")) for _ in range(3)]
        for start in range(0, len(whole), chunk):
            connection.data_received(whole[start : start + chunk])
        assert [(await answer).data for answer in answers] == [b"1", b"", b"333"]
    assert not connection.is_closed
    assert heard.rooms >= len(whole)


async def test_a_request_that_is_too_large_is_refused_and_the_connection_stays(play: Play) -> None:
    async def script(peer: Peer) -> None:
        while True:
            peer.send(node_reply((await peer.request()).xid, b"1"))

    connection = await play(script)
    before = ask(connection, wire.wire_get("/a"))
    large = ask(connection, wire.wire_write(SetData("/a", bytes(MAX_BYTES)), b""))
    after = ask(connection, wire.wire_get("/a"))
    error = await failure(large)
    assert isinstance(error, errors.TooLarge)
    assert "set /a" in str(error)
    assert (await before).data == (await after).data == b"1"
    assert not connection.is_closed
    assert connection.in_flight == 0


async def test_a_reply_that_cannot_be_read_fails_a_read_and_leaves_a_write_open(
    play: Play,
) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(2):
            peer.send(reply((await peer.request()).xid, 1, 0, b"\0\0"))
        peer.send(node_reply((await peer.request()).xid, b"1"))
        await peer.wait_end()

    connection = await play(script)
    read, write = (
        ask(connection, wire.wire_get("/a")),
        ask(connection, wire.wire_write(Create("/a"), b"")),
    )
    last = ask(connection, wire.wire_get("/a"))
    assert "unreadable" in str(await failure(read))
    # The server did it and said so.
    assert isinstance(await failure(write), errors.Ambiguous)
    assert isinstance(await last, Versioned)


@pytest.mark.parametrize("code", [-4, -7, -122])
async def test_a_server_that_does_not_know_leaves_a_write_open(play: Play, code: int) -> None:
    async def script(peer: Peer) -> None:
        while True:
            peer.send(reply((await peer.request()).xid, 1, code))

    connection = await play(script)
    write, read = (
        ask(connection, wire.wire_write(SetData("/a", b""), b"")),
        ask(connection, wire.wire_get("/a")),
    )
    assert isinstance(await failure(write), errors.Ambiguous)
    assert isinstance(await failure(read), errors.ConnectionLoss | errors.OperationTimeout)
    assert not connection.is_closed


async def test_an_unknown_error_code_fails_the_request_alone(play: Play) -> None:
    async def script(peer: Peer) -> None:
        peer.send(reply((await peer.request()).xid, 1, -4711))
        peer.send(node_reply((await peer.request()).xid, b"1"))
        await peer.wait_end()

    connection = await play(script)
    refused, answered = ask(connection, wire.wire_get("/a")), ask(connection, wire.wire_get("/a"))
    error = await failure(refused)
    assert type(error) is errors.StoreError
    assert "-4711" in str(error)
    assert (await answered).data == b"1"


async def test_an_event_is_reported_before_the_reply_that_follows_it(
    play: Play, heard: Heard
) -> None:
    async def script(peer: Peer) -> None:
        event = reply(-1, 7, 0, struct.pack("!iii", 3, 3, 2) + b"/a")
        peer.send(event + node_reply((await peer.request()).xid, b"1", zxid=8))
        await peer.wait_end()

    connection = await play(script)
    answer = ask(connection, wire.wire_get("/a"))
    events_before_reply: list[int] = []
    answer.add_done_callback(lambda _: events_before_reply.append(len(heard.events)))
    await answer
    await eventually(lambda: events_before_reply)
    assert events_before_reply == [1]
    assert heard.events == [Notification(Change.MODIFIED, "/a", 7)]
    assert heard.zxids == [7, 8]


async def test_everything_unanswered_fails_at_once_when_the_server_goes(play: Play) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(4):
            await peer.request()

    connection = await play(script)
    reads = [ask(connection, wire.wire_get("/a")) for _ in range(2)]
    write = ask(connection, wire.wire_write(SetData("/a", b""), b""))
    given_up = ask(connection, wire.wire_get("/a"))
    given_up.cancel()
    for read in reads:
        assert isinstance(await failure(read), errors.ConnectionLoss)
    assert isinstance(await failure(write), errors.Ambiguous)
    assert connection.in_flight == 0
    assert connection.is_closed
    late = ask(connection, wire.wire_write(SetData("/a", b""), b""))
    assert isinstance(await failure(late), errors.ConnectionLoss)


async def test_a_request_that_was_given_up_keeps_its_place_in_the_order(play: Play) -> None:
    async def script(peer: Peer) -> None:
        while True:
            peer.send(node_reply((await peer.request()).xid, b"1"))

    connection = await play(script)
    first, second = ask(connection, wire.wire_get("/a")), ask(connection, wire.wire_get("/a"))
    first.cancel()
    assert connection.in_flight == 2
    assert (await second).data == b"1"
    assert connection.in_flight == 0


async def test_the_first_request_of_a_turn_leaves_at_once_and_the_others_in_one_write(
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            peer.send(node_reply((await peer.request()).xid, b"1"))

    connection = await play(script)
    assert connection.stream._transport is not None
    writes = 0
    write = connection.stream._transport.write

    def counted(data: Any) -> None:
        nonlocal writes
        writes += 1
        write(data)

    monkeypatch.setattr(connection.stream._transport, "write", counted)
    answers = [ask(connection, wire.wire_get("/a")) for _ in range(100)]
    assert writes == 1
    for answer in answers:
        await answer
    assert writes == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(frame(b"\0\0\0\0"), id="too short"),
        pytest.param(b"HTTP/1.1 400\r\n", id="another protocol"),
    ],
)
async def test_a_handshake_that_fails_is_a_lost_connection(answer: bytes) -> None:
    async def script(peer: Peer) -> None:
        peer.send(answer)

    async with FakeZooKeeper.playing(script) as fake:
        assert isinstance(await failure(open_to(fake.address)), errors.ConnectionLoss)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 64 + ".invalid"])
async def test_a_host_that_cannot_be_found_is_a_lost_connection_that_names_it(host: str) -> None:
    error = await failure(open_to(f"{host}:2181"))
    assert isinstance(error, errors.ConnectionLoss)
    assert f"{host}:2181" in str(error)
