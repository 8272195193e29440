"""A relay to a real ZooKeeper that reports watch events as ClickHouse Keeper does.

Keeper takes a persistent recursive watch, and puts the path of the watch into each event, where
ZooKeeper puts that of the node that has changed.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.tasks import TaskScope

LOOPBACK = "127.0.0.1"
_ADD_WATCH = 106
_EVENT_XID = -1
_LENGTH = struct.Struct("!i")
_REQUEST = struct.Struct("!ii")
_REPLY = struct.Struct("!iqi")
# Of an event, before its path.
_EVENT_HEAD_BYTES = _REPLY.size + 8


class KeeperLike:
    """Listens on a port of its own as long as its scope lasts."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._tasks = TaskScope("keeper-like relay")
        self.address = ""

    @classmethod
    @asynccontextmanager
    async def before(cls, server_port: int) -> "AsyncIterator[KeeperLike]":
        """Stand in front of a loopback port."""
        relay = cls(server_port)
        async with relay._tasks:
            listener = await asyncio.start_server(relay._accept, LOOPBACK, 0)
            relay.address = f"{LOOPBACK}:{listener.sockets[0].getsockname()[1]}"
            try:
                yield relay
            finally:
                listener.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._relay(reader, writer), "connection")

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(LOOPBACK, self._server_port)
        watched: set[str] = set()
        # Each way ends the other one with its connection.
        async with asyncio.TaskGroup() as both:
            both.create_task(_requests(reader, to_server, watched), name="requests")
            both.create_task(_replies(from_server, writer, watched), name="replies")


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


async def _requests(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watched: set[str]
) -> None:
    is_first = True
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            data = await _frame(reader)
            if not is_first and _REQUEST.unpack_from(data)[1] == _ADD_WATCH:
                watched.add(_text(data, _REQUEST.size))
            is_first = False
            writer.write(_LENGTH.pack(len(data)) + data)
    writer.close()


async def _replies(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watched: set[str]
) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        writer.write(await _whole(reader))
        while True:
            data = await _frame(reader)
            if _REPLY.unpack_from(data)[0] == _EVENT_XID:
                data = _renamed(data, watched)
            writer.write(_LENGTH.pack(len(data)) + data)
    writer.close()


async def _whole(reader: asyncio.StreamReader) -> bytes:
    """The answer of the handshake, which has no header."""
    data = await _frame(reader)
    return _LENGTH.pack(len(data)) + data


def _renamed(data: bytes, watched: set[str]) -> bytes:
    """An event with the path of the nearest watch at or above its node."""
    path = _text(data, _EVENT_HEAD_BYTES)
    end = _EVENT_HEAD_BYTES + _LENGTH.size + len(path.encode())
    at = path
    while at not in watched and at != "/":
        at = at.rpartition("/")[0] or "/"
    name = at.encode()
    return data[:_EVENT_HEAD_BYTES] + _LENGTH.pack(len(name)) + name + data[end:]


def _text(data: bytes, offset: int) -> str:
    (size,) = _LENGTH.unpack_from(data, offset)
    begin = offset + _LENGTH.size
    return data[begin : begin + size].decode()
