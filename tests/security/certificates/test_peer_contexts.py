"""A request begins only with a server whose certificate proves the id of the broker."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import CertificateRefused
from broker_ctl.http_client import HttpClient
from broker_ctl.peer_http import AddressSource, PeerAddresses, PeerHttp
from broker_ctl.security.certificates.peer_certificate import (
    BrokerIdentity,
    PeerContexts,
    ProvingConnection,
)
from broker_ctl.security.rotation.reloadable import ReloadableContext
from tests.support.security.authority import Authority, Issued
from tests.support.security.listener import HOST, Listener, listening
from tests.support.time.waiting import PATIENCE_S

OURS = "prod"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours", OURS)


def serving(files: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


def calling(authority: Authority) -> ssl.SSLContext:
    """As a daemon's, with the newest certificates in each handshake."""
    context = ssl.create_default_context(cafile=authority.path)
    context.sslobject_class = ProvingConnection
    return ReloadableContext(lambda: context)


class Peers:
    """Requests to brokers that are registered at the address of a listener."""

    def __init__(self, http: HttpClient, contexts: PeerContexts, listener: Listener) -> None:
        self._listener = listener
        self.addresses = PeerAddresses()
        self._http = PeerHttp(
            http, self.addresses, self._registered, requires_tls=True, tls_for=contexts.of
        )

    def _registered(self, broker_id: str) -> BrokerUrls:
        return BrokerUrls(broker_id, web_url_tls=self._listener.url)

    async def ask(self, port: int) -> int:
        """Status of a command to the broker of this port."""
        urls = BrokerUrls(f"{HOST}:{port}")
        reply = await self._http.request(
            "POST", urls, "/control/v1/acquire", AddressSource.OWNER, json={"secret": "x"}
        )
        return reply.status


@asynccontextmanager
async def peers(authority: Authority, server: Issued) -> AsyncIterator[tuple[Peers, Listener]]:
    contexts = PeerContexts(calling(authority), BrokerIdentity(OURS))
    async with (
        listening(serving(server)) as listener,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=4096) as http,
    ):
        yield Peers(http, contexts, listener), listener


def run(loop: str, what: Coroutine[Any, Any, None]) -> None:
    if loop == "uvloop":
        uvloop.run(what)
    else:
        asyncio.run(what)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_only_the_broker_that_is_meant_gets_the_request(authority: Authority, loop: str) -> None:
    server = authority.broker("b", f"{HOST}:7001", HOST)

    async def ask() -> None:
        async with peers(authority, server) as (asker, listener):
            assert await asker.ask(7001) == 200
            assert len(listener.requests) == 1
            # Another broker's id at the same address: a connection is not taken over either.
            with pytest.raises(CertificateRefused, match="does not prove the id"):
                await asker.ask(7002)
            assert len(listener.requests) == 1
            assert await asker.ask(7001) == 200
            assert asker.addresses.refused[AddressSource.REGISTRATION] == 1

    run(loop, ask())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "kind", ["foreign authority", "other cluster", "no id", "other host", "client"]
)
def test_a_stranger_gets_nothing_of_the_request(
    authority: Authority, tmp_path: Path, kind: str, loop: str
) -> None:
    mine = f"{HOST}:7001"
    server = {
        "foreign authority": lambda: Authority(tmp_path / "theirs", OURS).broker("b", mine, HOST),
        "other cluster": lambda: authority.broker("b", mine, HOST, cluster="test"),
        "no id": lambda: authority.broker("b", f"{HOST}:1", HOST),
        "other host": lambda: authority.broker("b", mine, "127.0.0.3"),
        "client": lambda: authority.issue("admin"),
    }[kind]()

    async def ask() -> None:
        async with peers(authority, server) as (asker, listener):
            with pytest.raises(CertificateRefused):
                await asker.ask(7001)
            assert (listener.requests, listener.bodies) == ([], [])
            assert asker.addresses.refused[AddressSource.REGISTRATION] == 1

    run(loop, ask())


def test_a_context_without_the_check_makes_no_connection(authority: Authority) -> None:
    plain = ssl.create_default_context(cafile=authority.path)
    context = PeerContexts(plain, BrokerIdentity(OURS)).of(f"{HOST}:7001")
    with pytest.raises(ssl.SSLError, match="prove an id"):
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=HOST)


async def test_a_context_that_verifies_nothing_proves_nothing(
    authority: Authority,
) -> None:
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    blind.sslobject_class = ProvingConnection
    server = authority.broker("b", f"{HOST}:7001", HOST)
    async with listening(serving(server)) as listener:
        context = PeerContexts(blind, BrokerIdentity(OURS)).of(f"{HOST}:7001")
        with pytest.raises(ssl.SSLCertVerificationError, match="no SPIFFE ID"):
            await asyncio.open_connection(HOST, listener.port, ssl=context)


def test_the_number_of_contexts_is_bounded(authority: Authority) -> None:
    contexts = PeerContexts(calling(authority), BrokerIdentity(OURS))
    first = contexts.of("h:1")
    assert contexts.of("h:1") is first
    for number in range(2, 1100):
        contexts.of("h:1")
        contexts.of(f"h:{number}")
    assert contexts.of("h:1") is first
    assert len(contexts._contexts) == 1024
