"""The bytes of a connection: their order, and the ends that TLS has."""

import asyncio
import ssl
from typing import Any, cast

import pytest

from broker_ctl.addresses import Server
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection, Xids
from broker_ctl.store.zookeeper.stream import Stream
from tests.support.http.certificates import serving_context, trusting_context

LIMIT_S = 60.0


class SlowSocket:
    """Takes some bytes of each call, and then none."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.taken = b""

    def send(self, data: bytes, _flags: int) -> int:
        if not self.takes:
            raise BlockingIOError
        self.taken += data[: self.takes]
        return min(self.takes, len(data))

    def close(self) -> None:
        """Nothing to close."""


class Transport:
    """Writes behind what the socket took."""

    def __init__(self, socket: SlowSocket) -> None:
        self._socket = socket

    def write(self, data: bytes) -> None:
        self._socket.taken += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


async def test_what_a_full_socket_did_not_take_of_a_frame_goes_before_all_others() -> None:
    socket = SlowSocket(takes=3)
    stream = Stream(asyncio.get_running_loop())
    stream.open(cast("asyncio.Transport", Transport(socket)))
    stream._shared = cast("Any", socket)
    assert stream.send_now(b"[ping]")
    socket.takes = 0
    assert not stream.send_now(b"[lost]")
    socket.takes = 1
    assert not stream.send_now(b"[lost]")
    stream.write(b"[get]")
    await asyncio.sleep(0)
    socket.takes = 100
    assert stream.send_now(b"[ping]")
    assert socket.taken == b"[ping][get][ping]"


async def open_to(server: asyncio.Server, context: ssl.SSLContext) -> Connection:
    host, port = server.sockets[0].getsockname()[:2]
    connection, _ = await Connection.open(
        Server(host, port, host, host),
        wire.connect(10_000, 0, bytes(16), 0),
        on_event=print,
        on_zxid=print,
        on_room=lambda: None,
        max_frame_bytes=1000,
        xids=Xids(),
        tls=context,
    )
    return connection


async def test_the_end_that_a_server_announces_over_tls_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving_context()) as server:
        with pytest.raises(Exception, match="closed the connection"):
            async with asyncio.timeout(LIMIT_S):
                await open_to(server, trusting_context())


async def test_a_server_is_notified_over_tls_why_it_is_not_trusted() -> None:
    reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda _, _context: None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        codec = serving_context()
        received, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = codec.wrap_bio(received, answer, server_side=True)
        try:
            while True:
                try:
                    tls.do_handshake()
                    tls.read(1)
                except ssl.SSLWantReadError:
                    writer.write(answer.read())
                    if not (data := await reader.read(1 << 16)):
                        reported.set_result("nothing")
                        return
                    received.write(data)
        except ssl.SSLError as error:
            reported.set_result(str(error))
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            await open_to(server, ssl.create_default_context())
        async with asyncio.timeout(LIMIT_S):
            assert "unknown ca" in (await reported).lower()
