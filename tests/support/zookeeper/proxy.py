"""A TCP proxy in front of one ZooKeeper server, that gets its connections into trouble."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import eventually

LOOPBACK = "127.0.0.1"
_MAX_FRAME_BYTES = 4 << 20
_MAX_CONNECTIONS = 256
_HELD_S = 600.0
_PATIENCE_S = 2.0
_POLL_S = 0.02
_CHUNK_BYTES = 1 << 16
# A packet between servers: type, zxid, length of its data; then a number of names, and these.
_PACKET = struct.Struct("!iqi")
_ACK = 3
_LENGTH = struct.Struct("!i")
_REQUEST = struct.Struct("!ii")
# Length, protocol version, timeout, session id.
_CONNECTED = struct.Struct("!iiiq")


class Way(Enum):
    """How the proxy treats data and connections."""

    OPEN = auto()
    REFUSED = auto()  # new connections are reset, those that stand go on
    HALF_OPEN = auto()  # swallowed in both directions, and no end is notified


class Loss(Enum):
    """How one request is lost, before the connection is reset."""

    REQUEST = auto()  # the server never sees it
    REPLY = auto()  # the server has done it


@dataclass(eq=False)
class _Link:
    """One connection of a client, and the proxy's own to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    eaten_xid: int | None = None
    session_id: int = 0
    opcodes: list[int] = field(default_factory=list)

    def reset(self) -> None:
        for writer in (self.client, self.server):
            _reset(writer)


class Proxy:
    """Listens on a port of its own as long as its scope lasts."""

    def __init__(self, server_port: int, tls: ssl.SSLContext | None) -> None:
        self.server_port = server_port
        self._tls = tls
        self._links: set[_Link] = set()
        self._loss: tuple[Loss, int] | None = None
        self._tasks = TaskScope("proxy")
        self._port = 0
        self.way = Way.OPEN
        self.delay_s = 0.0
        self.is_stalled = False
        self.accepted = 0
        self.lost = 0

    @classmethod
    @asynccontextmanager
    async def to(
        cls,
        server_port: int,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> "AsyncIterator[Proxy]":
        """Stand in front of a loopback port; with ``tls`` clients must speak TLS.

        ``port`` is its own; 0: any.
        """
        proxy = cls(server_port, tls)
        async with proxy._tasks:
            listener = await asyncio.start_server(proxy._accept, LOOPBACK, port, ssl=tls)
            proxy._port = listener.sockets[0].getsockname()[1]
            try:
                yield proxy
            finally:
                listener.close()
                proxy.cut()
                await listener.wait_closed()

    @property
    def port(self) -> int:
        return self._port

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    @property
    def opcodes(self) -> list[int]:
        """Opcodes of the requests over open connections, in order."""
        return [opcode for link in self._links for opcode in link.opcodes]

    @property
    def _is_refusing(self) -> bool:
        return self.way is Way.REFUSED

    @property
    def session_ids(self) -> set[int]:
        """Sessions that servers have granted over open connections."""
        return {link.session_id for link in tuple(self._links)} - {0}

    def cut(self) -> None:
        """Reset every connection."""
        for link in tuple(self._links):
            link.reset()

    def lose(self, loss: Loss, opcode: int) -> None:
        """Let the next request of this kind get lost, once."""
        self._loss = (loss, opcode)

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, client), "connection")

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._is_refusing or len(self._links) >= _MAX_CONNECTIONS:
            _reset(client)
            return
        self.accepted += 1
        try:
            answers, server = await self._reach_server()
            link = _Link(client, server)
            # It may have been cut meanwhile, when this connection was none yet.
            if self._is_refusing:
                link.reset()
                return
            await self._connect(reader, answers, link)
        except OSError:
            pass
        finally:
            _reset(client)

    async def _reach_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(LOOPBACK, self.server_port)

    async def _connect(
        self,
        requests: asyncio.StreamReader,
        answers: asyncio.StreamReader,
        link: _Link,
    ) -> None:
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry_requests(requests, link), name="requests")
                group.create_task(self._carry_replies(answers, link), name="replies")
        finally:
            link.reset()
            self._links.discard(link)

    async def _carry_requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        is_first = True
        async for frame in _frames(reader):
            if self.is_stalled:
                await eventually(lambda: not self.is_stalled, _HELD_S)
            if self.way is Way.HALF_OPEN:
                continue
            # The first frame is the connect request, which has neither xid nor opcode.
            if not is_first and self._is_lost(frame, link):
                break
            is_first = False
            link.server.write(frame)
        await self._keep_quiet()
        link.reset()

    def _is_lost(self, frame: bytes, link: _Link) -> bool:
        xid, opcode = _REQUEST.unpack_from(frame, _LENGTH.size)
        link.opcodes.append(opcode)
        if self._loss is None or self._loss[1] != opcode:
            return False
        loss, self._loss = self._loss[0], None
        if loss is Loss.REPLY:
            link.eaten_xid = xid
            return False
        self.lost += 1
        return True

    async def _carry_replies(self, reader: asyncio.StreamReader, link: _Link) -> None:
        is_first = True
        async for frame in _frames(reader):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.way is Way.HALF_OPEN:
                continue
            if not is_first and _LENGTH.unpack_from(frame, _LENGTH.size)[0] == link.eaten_xid:
                self.lost += 1
                break
            if is_first and len(frame) >= _CONNECTED.size:
                link.session_id = _CONNECTED.unpack_from(frame)[3]
            is_first = False
            link.client.write(frame)
        # What came before it shall arrive: a reset would overtake it.
        with contextlib.suppress(OSError):
            await link.client.drain()
        await self._keep_quiet()
        link.reset()

    async def _keep_quiet(self) -> None:
        """Wait while the link is half-open: it does not report the end of its other side either."""
        if self.way is Way.HALF_OPEN:
            await eventually(lambda: self.way is not Way.HALF_OPEN, _HELD_S)


class PeerProxy(Proxy):
    """In front of a quorum or election port: what servers say to each other is not looked into.

    A proxy cannot refuse like a port that nobody listens on: it has taken the connection when it
    finds out. A follower would take that for a leader's refusal and call a new election, so the
    proxy waits a moment for the leader, who opens his port only after he was elected.
    """

    async def _reach_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        end_s = asyncio.get_running_loop().time() + _PATIENCE_S
        while True:
            try:
                return await super()._reach_server()
            except OSError:
                if asyncio.get_running_loop().time() > end_s:
                    raise
            await asyncio.sleep(_POLL_S)

    async def _carry_requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        await self._carry(reader, link.server)
        await self._keep_quiet()
        link.reset()

    async def _carry_replies(self, reader: asyncio.StreamReader, link: _Link) -> None:
        await self._carry(reader, link.client)
        await self._keep_quiet()
        link.reset()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self.way is not Way.HALF_OPEN:
                    writer.write(chunk)
                    await writer.drain()


@dataclass(frozen=True)
class _HeldAck:
    zxid: int
    packet: bytes
    leader: asyncio.StreamWriter


class QuorumProxy(PeerProxy):
    """In front of the quorum port of a leader: it holds what followers acknowledge.

    A slow disk does the same: what was proposed is neither committed nor lost meanwhile.
    """

    def __init__(self, server_port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(server_port, tls)
        self.holds_acks = False
        self.held: list[_HeldAck] = []

    def release_acks(self, up_to_zxid: int | None = None) -> None:
        """Let those pass, or all; without a bound later ones are not held any more."""
        self.holds_acks = self.holds_acks and up_to_zxid is not None
        for ack in tuple(self.held):
            if up_to_zxid is None or ack.zxid <= up_to_zxid:
                self.held.remove(ack)
                ack.leader.write(ack.packet)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if all(link.server is not writer for link in self._links):
            await super()._carry(reader, writer)
            return
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, zxid, packet = await _packet(reader)
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self.way is Way.HALF_OPEN:
                    continue
                if kind == _ACK and self.holds_acks:
                    self.held.append(_HeldAck(zxid, packet, writer))
                    continue
                writer.write(packet)
                await writer.drain()


async def _packet(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Type, zxid and bytes of what a follower sends next."""
    head = await reader.readexactly(_PACKET.size)
    kind, zxid, size = _PACKET.unpack(head)
    parts = [head, await reader.readexactly(max(size, 0))]
    count = await reader.readexactly(_LENGTH.size)
    parts.append(count)
    for _ in range(2 * max(_LENGTH.unpack(count)[0], 0)):
        length = await reader.readexactly(_LENGTH.size)
        parts += (length, await reader.readexactly(max(_LENGTH.unpack(length)[0], 0)))
    return kind, zxid, b"".join(parts)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Whole frames, length and all, until the connection ends."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            head = await reader.readexactly(_LENGTH.size)
            (length,) = _LENGTH.unpack(head)
            if not 0 <= length <= _MAX_FRAME_BYTES:
                # A four-letter word, which a client asks for that finds no server.
                return
            yield head + await reader.readexactly(length)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that the other end knows at once."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
