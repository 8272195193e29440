"""Where ``localhost`` is two addresses, what is meant for one goes to that one.

Another user of the machine may listen on ``[::1]`` at the port that a daemon has on 127.0.0.1.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import make_mocked_request

from broker_ctl.addresses import look_up
from broker_ctl.api.http.access.peer_requests import evidence_of
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.static_tokens import LoopbackToken, find_token, runtime_directory
from tests.support.time.waiting import PATIENCE_S

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class Listener:
    """Remembers what was sent to it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


@pytest.fixture
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As most machines have it in /etc/hosts: first ``::1``, then 127.0.0.1."""
    plain = socket.getaddrinfo

    def found(host: str | bytes | None, *rest: object, **named: object) -> list[object]:
        both = ("::1", "127.0.0.1") if host == "localhost" else (host,)
        return [one for each in both for one in plain(each, *rest, **named)]  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest_asyncio.fixture
async def thief() -> AsyncIterator[tuple[Listener, int]]:
    """Listens on ``[::1]`` alone; nobody listens on 127.0.0.1 at its port."""
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "::1", 0)
    async with server:
        yield listener, server.sockets[0].getsockname()[1]


@pytest.mark.usefixtures("two_addresses")
async def test_a_token_for_localhost_goes_to_no_listener_at_its_other_address(
    thief: tuple[Listener, int],
) -> None:
    listener, port = thief
    async with HttpClient(token="secret", timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        with pytest.raises(HttpError):
            await http.request("GET", f"http://localhost:{port}/")
        assert listener.got == []
        # Who names that address gets it.
        await http.request("GET", f"http://[::1]:{port}/")
    assert b"Authorization: Bearer secret" in listener.got[0]


@pytest.mark.usefixtures("two_addresses")
async def test_a_password_for_zookeeper_goes_to_no_listener_at_its_other_address() -> None:
    found = await look_up("localhost", 2181, PATIENCE_S)
    assert [server.address for server in found] == ["127.0.0.1"]


async def test_the_host_that_was_named_is_still_the_one_that_is_asked_for() -> None:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    async with (
        server,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        port = server.sockets[0].getsockname()[1]
        await http.request("GET", f"http://localhost:{port}/")
    assert f"Host: localhost:{port}".encode() in listener.got[0]


def test_the_local_token_proves_nothing_to_a_client_of_another_machine(tmp_path: Path) -> None:
    token = LoopbackToken()
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with token.published(runtime_directory(environment), [("127.0.0.1", 8080)]):
        found = find_token("http://localhost:8080", environment)
    assert found is not None
    assert token.authenticate(Evidence(found.encode(), is_local=True)) is not None
    assert token.authenticate(Evidence(found.encode())) is None


@pytest.mark.parametrize(
    ("address", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("2001:db8::1", False)],
)
def test_the_address_of_a_connection_says_whose_machine_a_client_is_on(
    address: str, is_local: bool
) -> None:
    request = make_mocked_request("GET", "/", headers={"X-Forwarded-For": "127.0.0.1"})
    assert evidence_of(request.clone(remote=address), b"token").is_local is is_local
