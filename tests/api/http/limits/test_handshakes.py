"""TLS handshakes over real sockets, with asyncio's own event loop and with uvloop."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Self, cast

import pytest
import uvloop

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits import connections, handshakes
from broker_ctl.api.http.limits.handshakes import Handshakes
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.certificates import TLS, serving_context
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[Callable[[], Awaitable[None]]], None]]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:

        def run_in(test: Callable[[], Awaitable[None]]) -> None:
            async def bounded() -> None:
                async with asyncio.timeout(PATIENCE_S):
                    await test()

            runner.run(bounded())

        yield run_in


class Echo(asyncio.Protocol):
    """Sends back what it gets, and counts its connections."""

    made = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Echo.made += 1
        assert transport.get_extra_info("ssl_object") is not None
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class Port:
    """A port over TLS whose handshakes are bounded."""

    def __init__(self, limit_s: float = PATIENCE_S) -> None:
        self.handshakes = Handshakes(limit_s)
        self._writers: list[asyncio.StreamWriter] = []
        Echo.made = 0
        self.protocol = Echo

    async def __aenter__(self) -> Self:
        listen = self.handshakes.listen
        self.number = await listen(self.protocol, serving_context(), "127.0.0.1", 0, 100)
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await self.handshakes.close()

    async def silent(self, address: str = "127.0.0.1") -> asyncio.StreamReader:
        local = (address, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, local_addr=local)
        self._writers.append(writer)
        reader.writer = writer  # type: ignore[attr-defined]
        return reader

    async def echo(self, address: str = "127.0.0.1") -> None:
        trusted = ssl.create_default_context(cafile=TLS / "certificate.pem")
        reader, writer = await asyncio.open_connection(
            *("127.0.0.1", self.number),
            ssl=trusted,
            server_hostname="localhost",
            local_addr=(address, 0),
        )
        writer.write(b"x" * 100_000)
        assert await reader.readexactly(100_000) == b"x" * 100_000
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def test_a_client_that_shakes_hands_is_served(run: Callable[..., None]) -> None:
    async def test() -> None:
        async with Port() as port:
            for _ in range(3):
                await port.echo()
            await eventually(lambda: len(port.handshakes) == 0)
            assert (port.protocol.made, port.handshakes.refused) == (3, 0)

    run(test)


def test_what_comes_with_the_end_of_the_handshake_is_not_lost(run: Callable[..., None]) -> None:
    """With TLS 1.3 a client's first request may be in the same packet."""

    async def test() -> None:
        async with Port() as port:
            trusted = ssl.create_default_context(cafile=TLS / "certificate.pem")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = trusted.wrap_bio(incoming, outgoing, server_hostname="localhost")
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
            done = False
            while not done:
                try:
                    tls.do_handshake()
                    done = True
                    tls.write(b"early")
                except ssl.SSLWantReadError:
                    pass
                writer.write(outgoing.read())
                if not done:
                    incoming.write(await reader.read(65_536))
            echoed = b""
            while not echoed:
                incoming.write(await reader.read(65_536))
                with contextlib.suppress(ssl.SSLWantReadError):
                    echoed = tls.read(100)
            assert echoed == b"early"
            writer.close()

    run(test)


def test_sockets_without_a_handshake_are_counted_and_the_oldest_leave(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "_MOST", 4)

    async def test() -> None:
        async with Port() as port:
            first = [await port.silent() for _ in range(2)]
            await eventually(lambda: len(port.handshakes) == 2)
            # Two are of one address at most; the third takes the place of its first.
            third = await port.silent()
            assert await first[0].read() == b""
            others = [await port.silent(f"127.0.0.{number}") for number in (2, 3)]
            await eventually(lambda: len(port.handshakes) == 4)
            # Of all addresses the oldest one.
            await port.echo("127.0.0.4")
            assert await first[1].read() == b""
            assert port.handshakes.refused == 2
            assert len(port.handshakes) == 3
            assert not any(one.at_eof() for one in (third, *others))
            assert port.protocol.made == 1

    run(test)


def test_a_handshake_has_a_deadline(run: Callable[..., None]) -> None:
    async def test() -> None:
        async with Port(limit_s=0.1) as port:
            silent = await port.silent()
            assert await silent.read() == b""
            await eventually(lambda: len(port.handshakes) == 0)

    run(test)


def test_other_bytes_than_a_handshake_end_the_connection(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with Port() as port:
            wrong = await port.silent()
            wrong.writer.write(REQUEST)  # type: ignore[attr-defined]
            with contextlib.suppress(ConnectionError):
                await wrong.read()
            gone = await port.silent()
            gone.writer.transport.abort()  # type: ignore[attr-defined]
            await eventually(lambda: len(port.handshakes) == 0)
            await port.echo()

    run(test)
    assert [one for one in caplog.records if one.levelname in {"ERROR", "WARNING"}] == []


def test_sockets_of_clients_leave_descriptors_to_the_rest() -> None:
    binary = connections.BINARY + 2 * connections.BINARY_WAITING + connections.BINARY_REFUSED
    taken = connections.HTTP + binary + 2 * connections.HANDSHAKES
    assert taken <= 1 - 1 / 16
    assert handshakes._LIMIT_S <= 10


async def test_an_http_server_bounds_the_handshakes_of_its_ports() -> None:
    rules = ApiRules(CLUSTER, port_tls=0, tls=serving_context())
    async with serving_brokers([free_port()], rules) as [broker]:
        api = broker.api
        assert api is not None
        _, writer = await asyncio.open_connection("127.0.0.1", api.port_tls)
        await eventually(lambda: len(api._http.handshakes) == 1)
        writer.close()
        await eventually(lambda: len(api._http.handshakes) == 0)
