"""Attacks on every port that a setting opens: sockets that say nothing, old TLS, no TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Final

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.limits import handshakes
from broker_ctl.settings.publishing import KEYS, HttpPort, PortRole
from tests.security.surface.conftest import SECURED
from tests.support.clusters.fake_services import Broker, serving_brokers
from tests.support.http.binary_client import CONNECT, lookup
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.http.web_server import free_port
from tests.support.security.surface import PORT_KEYS
from tests.support.time.waiting import PATIENCE_S

# Of the broker process; with dataPlane=simulated the daemon's own, see test_replication_port.py.
OF_BROKER_PROCESS: Final = {"brokerServicePort", "brokerServicePortTls"}
LOOKUP: Final = ("lookupServicePort", "lookupServicePortTls")
HTTP: Final = {
    key: (role, scheme)
    for role, keys in KEYS.items()
    for key, scheme in ((keys.port, "HTTP"), (keys.port_tls, "HTTPS"))
}
TLS: Final = sorted(key for key in (*HTTP, *LOOKUP) if key.endswith("Tls"))
HEALTH: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def numbers(broker: Broker) -> dict[str, int]:
    """All ports of a daemon, by their settings."""
    assert isinstance(broker.api, ApiServer)
    found = {key: broker.api._http._ports[of] for key, of in HTTP.items()}
    return found | dict(zip(LOOKUP, broker.api.lookup_ports, strict=True))


@pytest.fixture
async def daemon(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr(handshakes, "_MOST", 4)
    further = tuple(
        HttpPort(role, port=0, port_tls=0) for role in PortRole if role is not PortRole.PUBLIC
    )
    rules = replace(
        SECURED,
        port_tls=0,
        lookup_port=0,
        lookup_port_tls=0,
        tls=serving_context(),
        further_ports=further,
        max_connections=4,
    )
    async with serving_brokers([free_port()], rules) as [broker]:
        yield broker


async def test_each_setting_of_a_port_is_attacked(daemon: Broker) -> None:
    assert set(numbers(daemon)) | OF_BROKER_PROCESS == set(PORT_KEYS)
    assert len(set(numbers(daemon).values())) == 8


@contextlib.asynccontextmanager
async def connected(
    port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    name = None if tls is None else "localhost"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("key", sorted({*HTTP, *TLS}))
async def test_silent_sockets_leave_room_for_a_client_at_each_port(
    daemon: Broker, key: str
) -> None:
    port = numbers(daemon)[key]
    async with contextlib.AsyncExitStack() as held, asyncio.timeout(PATIENCE_S):
        silent = [await held.enter_async_context(connected(port)) for _ in range(6)]
        # The oldest has left, so that the newest has a place.
        await silent[0][0].read()
        if key in HTTP:
            tls = trusting_context() if key in TLS else None
            async with connected(port, tls) as (reader, writer):
                writer.write(HEALTH)
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("key", TLS)
async def test_each_tls_port_speaks_1_2_or_newer_and_nothing_else(daemon: Broker, key: str) -> None:
    port = numbers(daemon)[key]
    async with asyncio.timeout(PATIENCE_S):
        for old in older():
            # The server's alert or the end of the connection, whichever comes first.
            with pytest.raises(OSError):  # noqa: PT011
                async with connected(port, old):
                    pass
        async with connected(port) as (reader, writer):
            writer.write(HEALTH)
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/" not in await reader.read()
        async with connected(port, trusting_context()) as (_, writer):
            version = writer.get_extra_info("ssl_object").version()
            assert version in {"TLSv1.2", "TLSv1.3"}


def older() -> Iterator[ssl.SSLContext]:
    for version in ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1:
        context = trusting_context()
        # Else this library would offer no cipher of that time.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.deprecated_call():
            context.minimum_version = context.maximum_version = version
        yield context


@pytest.mark.parametrize("key", sorted(HTTP))
@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("GET /livez", "Host: evil.example", 421),
        ("GET /control/v1/status", "Host: localhost", 401),
        ("PUT /control/v1/pause", "Host: localhost\r\nOrigin: https://evil.example", 403),
        ("GET /livez", "Host: localhost\r\nContent-Encoding: gzip", 415),
    ],
)
async def test_each_http_port_refuses_what_one_refuses(
    daemon: Broker, key: str, request_line: str, headers: str, status: int
) -> None:
    tls = trusting_context() if key in TLS else None
    async with connected(numbers(daemon)[key], tls) as (reader, writer):
        text = f"{request_line} HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n"
        writer.write(text.encode())
        async with asyncio.timeout(PATIENCE_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith(f"http/1.1 {status} ")
    assert "\r\nserver:" not in head
    assert "\r\nx-content-type-options: nosniff" in head


@pytest.mark.parametrize("key", LOOKUP)
async def test_each_binary_port_serves_nothing_before_a_token(daemon: Broker, key: str) -> None:
    tls = trusting_context() if key in TLS else None
    async with connected(numbers(daemon)[key], tls) as (reader, writer):
        writer.write(CONNECT + lookup("persistent://t/ns/x"))
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
    # One error, and the end of the connection.
    assert b"pulsar://" not in answer
    assert b"is wanted, not by 'none'" in answer
