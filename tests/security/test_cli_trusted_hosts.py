"""The command line sends its token to hosts that the operator trusts, wherever a daemon redirects.

A real daemon takes the targets of redirects from ZooKeeper; one that redirects stands for it here,
and a listener at 127.0.0.2 for the target.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from broker_ctl.cli.runtime.client import DaemonClient, TlsTrust
from broker_ctl.core.model.broker import AllowedHosts
from broker_ctl.errors import HttpError
from tests.support.http.web_server import serving
from tests.support.security.listener import HOST, Listener, listening

SECRET = "S3cretAdminToken0123456789"
AUTHORIZATION = f"Authorization: Bearer {SECRET}"


@asynccontextmanager
async def redirecting(location: str, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A daemon that redirects each request there; yields its URL."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": location + request.path})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app, ssl=context) as url:
        yield url


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as found:
        yield found


async def verb(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a verb, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", *arguments,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        _, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, error.decode()


async def test_a_redirect_to_another_host_stops_with_what_to_do(
    listener: Listener, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET, encoding="utf-8")
    asked = ("brokers", "list", "--token-file", str(token))
    async with redirecting(listener.url) as url:
        code, error = await verb(*asked, "--url", url)
        assert (code, listener.requests) == (1, [])
        for part in (f"the daemon at {url[7:]}", HOST, "--trusted-hosts", "--tls-ca"):
            assert part in error
        assert SECRET not in error
        await verb(*asked, "--url", url, "--trusted-hosts", f"b-1,{HOST}")
        assert AUTHORIZATION in listener.secrets


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1@{there}",
        "http://127.0.0.1\\@{there}",
        "//{there}",
        "http://{there}#127.0.0.1",
        "http://[::ffff:127.0.0.2]:{port}",
    ],
)
async def test_no_spelling_of_the_target_gets_the_token(listener: Listener, location: str) -> None:
    there = location.format(there=listener.broker_id, port=listener.port)
    async with redirecting(there) as url, DaemonClient(url, SECRET) as client:
        with pytest.raises(HttpError, match="not trusted with the token"):
            await client.get("/x")
    assert listener.requests == []


async def test_other_ports_of_the_same_host_and_trusted_domains_are_followed() -> None:
    async with redirecting("http://127.0.0.1:1") as url, DaemonClient(url, SECRET) as client:
        with pytest.raises(HttpError, match="redirected to a broker that does not answer"):
            await client.get("/x")
    trust = TlsTrust(AllowedHosts.parse([".invalid"]), allows_cleartext=True)
    async with (
        redirecting("http://b-1.invalid:1") as url,
        DaemonClient(url, SECRET, timeout_s=2.0, trust=trust) as client,
    ):
        with pytest.raises(HttpError, match="redirected to a broker that does not answer"):
            await client.get("/x")


async def test_without_a_token_every_redirect_is_followed(listener: Listener) -> None:
    async with redirecting(listener.url) as url, DaemonClient(url, None) as client:
        assert await client.get("/x") == {}
    assert listener.secrets == []


def contexts(authority: trustme.CA) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For servers on loopback, and for a client that trusts no other authority."""
    served, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1", HOST).configure_cert(served)
    authority.configure_trust(trusting)
    return served, trusting


async def test_a_certificate_of_the_named_authority_is_trusted_and_no_other() -> None:
    served, trusting = contexts(trustme.CA())
    strange, _ = contexts(trustme.CA())
    by_authority = TlsTrust(authority=True)
    async with listening(served) as one, redirecting(one.url, served) as url:
        async with DaemonClient(url, SECRET, trusting) as client:
            with pytest.raises(HttpError, match="not trusted with the token"):
                await client.get("/x")
        assert one.secrets == []
        async with DaemonClient(url, SECRET, trusting, trust=by_authority) as client:
            assert await client.get("/x") == {}
        assert one.secrets == [AUTHORIZATION]
    async with (
        listening(strange) as other,
        redirecting(other.url, served) as url,
        DaemonClient(url, SECRET, trusting, trust=by_authority) as client,
    ):
        with pytest.raises(HttpError, match="redirected to a broker that does not answer"):
            await client.get("/x")
    assert other.secrets == []


async def test_with_an_authority_nobody_is_followed_into_the_clear(listener: Listener) -> None:
    async with (
        redirecting(listener.url) as url,
        DaemonClient(url, SECRET, trust=TlsTrust(authority=True)) as client,
    ):
        with pytest.raises(HttpError, match="not trusted with the token"):
            await client.get("/x")
    assert listener.requests == []


async def test_a_token_crosses_no_network_in_the_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET, encoding="utf-8")
    # An address for documentation (RFC 5737): nothing answers.
    url = "http://192.0.2.1:8080"
    asked = ("brokers", "list", "--token-file", str(token), "--timeout", "0.2")
    code, error = await verb(*asked, "--url", url)
    assert code == 1
    for part in ("192.0.2.1:8080 in the clear", "nothing was sent", "--allow-cleartext"):
        assert part in error
    assert SECRET not in error
    for words in (("--url", url, "--allow-cleartext"), ("--url", "https://192.0.2.1:8080")):
        code, error = await verb(*asked, *words)
        assert (code, "in the clear" in error) == (1, False)


async def test_no_redirect_leads_a_token_into_the_clear(listener: Listener) -> None:
    async with redirecting("http://192.0.2.1:8080") as url:
        trust = TlsTrust(AllowedHosts.parse(("192.0.2.1",)))
        async with DaemonClient(url, SECRET, timeout_s=0.5, trust=trust) as client:
            with pytest.raises(HttpError, match="in the clear"):
                await client.get("/x")
    # Loopback is not a network.
    trust = TlsTrust(AllowedHosts.parse((HOST,)))
    async with redirecting(listener.url) as url, DaemonClient(url, SECRET, trust=trust) as client:
        await client.get("/x")
    assert AUTHORIZATION in listener.secrets
