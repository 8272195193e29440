"""A client of Pulsar's binary protocol that sends any bytes, well-formed or not."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, Final, Self

from broker_ctl.api.binary.conversation import FIELDS
from broker_ctl.api.binary.enums import CommandType
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from broker_ctl.api.binary.replies import BinaryFrames

_LIMIT_S: Final = 10.0


def command(kind: CommandType, **fields: Any) -> bytes:
    """A command's frame; its own message is there, even if it is empty."""
    built = BaseCommand(type=kind)
    own = getattr(built, FIELDS[kind])
    own.SetInParent()
    own.MergeFrom(type(own)(**fields))
    return framed(built.SerializePartialToString())


def framed(body: bytes) -> bytes:
    """Bytes with the sizes before them."""
    return struct.pack("!II", len(body) + 4, len(body)) + body


def lookup(topic: str, request_id: int = 1, **more: Any) -> bytes:
    """A LOOKUP."""
    return command(CommandType.LOOKUP, topic=topic, request_id=request_id, **more)


def partitions(topic: str, request_id: int = 1, **more: Any) -> bytes:
    """A PARTITIONED_METADATA."""
    return command(CommandType.PARTITIONED_METADATA, topic=topic, request_id=request_id, **more)


CONNECT: Final = command(CommandType.CONNECT, client_version="test", protocol_version=21)
PING: Final = command(CommandType.PING)
PONG: Final = command(CommandType.PONG)


class BinaryClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(
        cls, port: int, tls: SSLContext | None = None, *, receive_bytes: int = 0
    ) -> AsyncIterator[Self]:
        """A connection on which nothing was said yet; ``receive_bytes``: a small buffer."""
        tcp = socket.socket()
        tcp.setblocking(False)  # noqa: FBT003
        if receive_bytes:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await asyncio.get_running_loop().sock_connect(tcp, ("127.0.0.1", port))
        name = "127.0.0.1" if tls else None
        reader, writer = await asyncio.open_connection(sock=tcp, ssl=tls, server_hostname=name)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    @classmethod
    @asynccontextmanager
    async def connected(cls, port: int, tls: SSLContext | None = None) -> AsyncIterator[Self]:
        """A connection after its handshake."""
        async with cls.to(port, tls) as client:
            answer = await client.ask(CONNECT)
            assert answer.type == CommandType.CONNECTED
            yield client

    def send(self, *frames: bytes) -> None:
        """Say all of it in one go."""
        self.writer.write(b"".join(frames))

    async def receive(self) -> Any:
        """The next command."""
        async with asyncio.timeout(_LIMIT_S):
            total, size = struct.unpack("!II", await self._reader.readexactly(8))
            assert total == size + 4
            return BaseCommand.FromString(await self._reader.readexactly(size))

    async def receive_all(self) -> AsyncIterator[Any]:
        """All commands that come, many at a time; for a client that has nothing else to hear."""
        frames = BinaryFrames()
        while True:
            async with asyncio.timeout(_LIMIT_S):
                data = await self._reader.read(1 << 16)
            assert data
            frames.feed(data)
            while (found := frames.next()) is not None:
                yield BaseCommand.FromString(found)

    async def ask(self, frame: bytes) -> Any:
        """Say one thing, and hear one."""
        self.send(frame)
        return await self.receive()

    async def find(self, topic: str, request_id: int = 1, **more: Any) -> Any:
        """The answer to a LOOKUP."""
        answer = await self.ask(lookup(topic, request_id, **more))
        assert answer.type == CommandType.LOOKUP_RESPONSE
        assert answer.lookupTopicResponse.request_id == request_id
        return answer.lookupTopicResponse

    async def count(self, topic: str, request_id: int = 1, **more: Any) -> Any:
        """The answer to a PARTITIONED_METADATA."""
        answer = await self.ask(partitions(topic, request_id, **more))
        assert answer.type == CommandType.PARTITIONED_METADATA_RESPONSE
        assert answer.partitionMetadataResponse.request_id == request_id
        return answer.partitionMetadataResponse

    async def rest(self) -> bytes:
        """All bytes until the server has closed the connection."""
        async with asyncio.timeout(_LIMIT_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def is_answered(self) -> bool:
        """Whether a PING is answered by a PONG."""
        return bool((await self.ask(PING)).type == CommandType.PONG)
