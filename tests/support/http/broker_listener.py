"""Stands behind a broker's service address, and notes whom clients come for.

It greets, and refuses every producer: that a stock client came here is all that is asked.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from google.protobuf import unknown_fields

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from tests.support.http.binary_client import command

_TOPIC: Final = 1


class BrokerListener:
    """A broker's port that records the producers which clients want to open.

    Attributes:
        topics: of these producers.
    """

    def __init__(self) -> None:
        self.topics: set[str] = set()

    @asynccontextmanager
    async def at(self, port: int) -> AsyncIterator[None]:
        """Listen for the length of the block, on a port that the caller has reserved."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                total, size = struct.unpack("!II", await reader.readexactly(8))
                body = await reader.readexactly(size)
                await reader.readexactly(total - 4 - size)
                if (reply := self._answer(BaseCommand.FromString(body))) is not None:
                    writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, asked: Any) -> bytes | None:
        if asked.type == CommandType.CONNECT:
            version = asked.connect.protocol_version
            return command(CommandType.CONNECTED, server_version="here", protocol_version=version)
        if asked.type == CommandType.PING:
            return command(CommandType.PONG)
        if asked.type != CommandType.PRODUCER:
            return None
        # It can be gone through, whatever its stub says.
        fields: Any = unknown_fields.UnknownFieldSet(asked.producer)
        (topic,) = (each.data for each in fields if each.field_number == _TOPIC)
        self.topics.add(topic.decode())
        return command(
            CommandType.ERROR,
            request_id=asked.producer.request_id,
            error=ServerError.NotAllowedError,
            message="only looked up",
        )
