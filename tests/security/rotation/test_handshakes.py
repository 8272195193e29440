"""Handshakes before and after a change of certificates, at one server that keeps listening."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from broker_ctl.security.rotation.reloadable import ReloadableContext
from tests.support.security.authority import LOOPBACK
from tests.support.time.waiting import PATIENCE_S

# A server that refuses a handshake just ends it.
REFUSED = (OSError, asyncio.IncompleteReadError)


def serving(authority: trustme.CA, clients: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(LOOPBACK).configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def calling(authority: trustme.CA, own: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    own.issue_cert("client").configure_cert(context)
    return context


@asynccontextmanager
async def echoing(tls: ssl.SSLContext) -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, LOOPBACK, 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"hello\n")
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readexactly(6)


async def greeted(port: int, tls: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls)
    try:
        return await said(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("side", ["server", "client"])
async def test_new_handshakes_use_the_new_certificates_and_old_connections_live(side: str) -> None:
    old, new = trustme.CA(), trustme.CA()
    contexts = [serving(old, old)]
    async with echoing(ReloadableContext(lambda: contexts[-1])) as port:
        trusting = [calling(old, old)]
        client = ReloadableContext(lambda: trusting[-1]) if side == "client" else trusting[0]
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=client)
        assert await said(reader, writer)
        contexts.append(serving(new, new))
        with pytest.raises(ssl.SSLCertVerificationError):
            await greeted(port, client)
        trusting.append(calling(new, new))
        assert await greeted(port, client if side == "client" else trusting[-1])
        with pytest.raises(REFUSED):
            # Trusts the server, and shows a certificate of before.
            await greeted(port, calling(new, old))
        assert await said(reader, writer)
        writer.transport.abort()


def resumed(port: int, client: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession:
    """One exchange, begun with a session of before; the session that it leaves behind."""
    with (
        socket.create_connection((LOOPBACK, port), PATIENCE_S) as plain,
        client.wrap_socket(plain, server_hostname=LOOPBACK, session=session) as tls,
    ):
        tls.sendall(b"hello\n")
        if not tls.recv(6):
            raise ConnectionError("the server ended it")
        if session is not None:
            assert tls.session_reused
        found = tls.session
        assert found is not None
        return found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_nobody_resumes_a_session_of_a_certificate_that_is_not_trusted_any_more(
    version: ssl.TLSVersion,
) -> None:
    authority, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    contexts = [serving(authority, old)]
    async with echoing(ReloadableContext(lambda: contexts[-1])) as port:
        client = calling(authority, old)
        client.maximum_version = version
        session = await asyncio.to_thread(resumed, port, client, None)
        session = await asyncio.to_thread(resumed, port, client, session)
        contexts.append(serving(authority, new))
        with pytest.raises(REFUSED):
            await asyncio.to_thread(resumed, port, client, session)
