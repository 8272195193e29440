"""A server that speaks ZooKeeper's protocol by a script: what no real server can be made to say."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from broker_ctl.tasks import TaskScope

LOOPBACK = "127.0.0.1"
PING = 11
AUTH = 100
ADD_WATCH = 106
UNIMPLEMENTED = -6
_LENGTH = struct.Struct("!i")
_CONNECT = struct.Struct("!iqiqi")
_CONNECTED = struct.Struct("!iiqi")
_REQUEST = struct.Struct("!ii")
_REPLY = struct.Struct("!iqi")
STAT = struct.Struct("!qqqqiiiqiiq")


def frame(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def reply(xid: int, zxid: int = 0, error: int = 0, body: bytes = b"") -> bytes:
    return frame(_REPLY.pack(xid, zxid, error) + body)


def node_reply(xid: int, data: bytes, zxid: int = 1) -> bytes:
    """The answer to getData."""
    stat = STAT.pack(zxid, zxid, 0, 0, 0, 0, 0, 0, len(data), 0, zxid)
    return reply(xid, zxid, 0, _LENGTH.pack(len(data)) + data + stat)


@dataclass(frozen=True)
class Connect:
    """The connect request of a client."""

    zxid: int
    timeout_ms: int
    session_id: int
    password: bytes


@dataclass(frozen=True)
class Request:
    xid: int
    opcode: int
    body: bytes


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.connect = Connect(0, 0, 0, b"")

    async def wait_connect(self) -> None:
        data = await self._frame()
        _, zxid, timeout_ms, session_id, size = _CONNECT.unpack_from(data)
        password = data[_CONNECT.size : _CONNECT.size + size]
        self.connect = Connect(zxid, timeout_ms, session_id, password)

    def welcome(self, session_id: int, timeout_ms: int = 10_000) -> None:
        """Open or resume a session."""
        password = b"p" * 16
        head = _CONNECTED.pack(0, timeout_ms, session_id, len(password))
        self.send(frame(head + password + b"\0"))

    async def request(self) -> Request:
        """The next one; pings are answered on the way."""
        while True:
            data = await self._frame()
            xid, opcode = _REQUEST.unpack_from(data)
            request = Request(xid, opcode, data[_REQUEST.size :])
            if request.opcode != PING:
                return request
            self.send(reply(request.xid))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def wait_end(self) -> None:
        """Wait until the client has disconnected; its requests until then are ignored."""
        await self._reader.read(-1)

    async def _frame(self) -> bytes:
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        return await self._reader.readexactly(length)


Script = Callable[[Peer], Awaitable[None]]


class FakeZooKeeper:
    """Plays one script a connection, the last one again for every further connection."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self._scripts = scripts
        self.connects: list[Connect] = []
        self.address = ""
        self._tasks = TaskScope("fake ZooKeeper")

    @classmethod
    @asynccontextmanager
    async def playing(cls, *scripts: Script) -> "AsyncIterator[FakeZooKeeper]":
        """Serve on a loopback port; a connection ends with its script."""
        fake = cls(scripts)
        async with fake._tasks:
            server = await asyncio.start_server(fake._accept, LOOPBACK, 0)
            fake.address = f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
            try:
                yield fake
            finally:
                server.close()
                await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._play(reader, writer), "connection")

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await peer.wait_connect()
                script = self._scripts[min(len(self.connects), len(self._scripts) - 1)]
                self.connects.append(peer.connect)
                await script(peer)
        finally:
            writer.close()


async def serve(peer: Peer) -> None:
    """A server that keeps whatever session it is asked for, and answers every read with a node."""
    peer.welcome(peer.connect.session_id or 0x1234)
    while True:
        request = await peer.request()
        peer.send(node_reply(request.xid, b"fake"))


async def before_3_6(peer: Peer) -> None:
    """A server that knows no persistent watch: it says so, and closes the connection."""
    peer.welcome(peer.connect.session_id or 0x1234)
    while True:
        request = await peer.request()
        if request.opcode == ADD_WATCH:
            peer.send(reply(request.xid, 1, UNIMPLEMENTED))
            return
        peer.send(node_reply(request.xid, b""))
