"""A transport without a socket, for a connection in virtual time."""

import asyncio

from broker_ctl.api.binary.connection import BinaryConnection
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from broker_ctl.api.binary.replies import BinaryFrames


class MemoryTransport(asyncio.Transport):
    """Keeps what the server writes; the test is the client."""

    def __init__(self, connection: BinaryConnection) -> None:
        super().__init__()
        self._connection = connection
        self._heard = BinaryFrames()
        self.is_read = True
        self.has_ended = False  # by the end of the stream
        self.is_aborted = False
        connection.connection_made(self)

    def heard(self) -> list[int]:
        """Types of the commands that came since the last time."""
        found = []
        while (command := self._heard.next()) is not None:
            found.append(BaseCommand.FromString(command).type)
        return found

    def say(self, data: bytes) -> None:
        """Send as the client; while the server does not read, the bytes stay in the socket."""
        assert self.is_read
        self._connection.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.has_ended
        assert not self.is_aborted
        self._heard.feed(bytes(data))

    def write_eof(self) -> None:
        self.has_ended = True

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The test says when they are reached."""

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        if not self.is_aborted:
            self.is_aborted = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True
