"""The network of replicas over TCP: each frame has a big-endian length of four bytes before it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.addresses import Server, look_up
from broker_ctl.dataplane.replication.messages import BEAT_S, SILENCE_S
from broker_ctl.dataplane.replication.network import MAX_FRAME_BYTES, Channel, ChannelClosed
from broker_ctl.dataplane.replication.tls import ReplicationTls
from broker_ctl.dataplane.stream_listener import StreamListener

_LENGTH_BYTES: Final = 4
# Half of it for the lookup of the name, half for its addresses.
_CONNECT_S: Final = SILENCE_S - BEAT_S


class TcpChannel:
    """`Channel` over one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tls: ReplicationTls | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._proven = None if tls is None else tls.brokers_of(writer.get_extra_info("ssl_object"))

    @property
    def proven_brokers(self) -> frozenset[int] | None:
        """Brokers whose number the certificate of the other end proves."""
        return self._proven

    async def send(self, frame: bytes) -> None:
        """Send a frame; returns when the kernel has room for more."""
        if len(frame) > MAX_FRAME_BYTES:
            raise ChannelClosed(f"a frame of {len(frame)} bytes is too long")
        try:
            self._writer.write(len(frame).to_bytes(_LENGTH_BYTES) + frame)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> bytes:
        """The next frame."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
            if length > MAX_FRAME_BYTES:
                self.close()
                raise ChannelClosed(f"a frame of {length} bytes is too long")
            return await self._reader.readexactly(length)
        except (OSError, EOFError) as error:
            raise ChannelClosed(str(error)) from error

    def close(self) -> None:
        """Close the connection, even if the other end does not read: unsent data is dropped."""
        self._writer.transport.abort()


class TcpListener:
    """`Listener` at one port."""

    def __init__(
        self, serve: Callable[[Channel], Awaitable[None]], tls: ReplicationTls | None = None
    ) -> None:
        self._serve = serve
        self._tls = tls
        self._listener = StreamListener(self._run, "replica connections")

    async def open(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not ours.
        """
        await self._listener.open(host, port, None if self._tls is None else self._tls.serving)

    async def close(self) -> None:
        """Accept no more connections, and end those that are served."""
        await self._listener.close()

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = TcpChannel(reader, writer, self._tls)
        try:
            await self._serve(channel)
        finally:
            channel.close()


class TcpNetwork:
    """`Network` of a process.

    Args:
        tls: None: connections are neither encrypted nor authenticated.
    """

    def __init__(self, tls: ReplicationTls | None = None) -> None:
        self._tls = tls

    async def listen(
        self, address: str, serve: Callable[[Channel], Awaitable[None]]
    ) -> TcpListener:
        """Listen at an address."""
        listener = TcpListener(serve, self._tls)
        await listener.open(*_parse_address(address))
        return listener

    async def connect(self, address: str) -> TcpChannel:
        """Connect to an address: to the first of those of its name with which it succeeds."""
        failures: list[str] = []
        try:
            host, port = _parse_address(address)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        servers = await look_up(host, port, _CONNECT_S / 2)
        for server in servers:
            try:
                async with asyncio.timeout(_CONNECT_S / 2 / len(servers)):
                    return await self._connect(server)
            except TimeoutError:
                failures.append(f"{server}: timed out")
            except OSError as error:
                failures.append(f"{server}: {error}")
        raise ChannelClosed("; ".join(failures))

    async def _connect(self, server: Server) -> TcpChannel:
        context = None if self._tls is None else self._tls.calling
        name = server.host if context is not None else None
        reader, writer = await asyncio.open_connection(
            server.address, server.port, ssl=context, server_hostname=name
        )
        return TcpChannel(reader, writer, self._tls)


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise OSError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
