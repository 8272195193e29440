"""Responses as bytes, over real sockets."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from broker_ctl.api.http.responses import (
    ApiResponse,
    encoded_json,
    from_error,
    may_share,
    repeated_json,
    repeated_redirect,
)
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    ConnectionLoss,
    Fenced,
    NamespaceMissing,
    NoAuth,
    PeerRefused,
    SessionExpired,
    SessionMoved,
    StoreClosed,
)
from tests.support.http.web_server import serving
from tests.support.time.waiting import eventually

KINDS: dict[str, dict[str, Any]] = {
    "body": {"body": b'{"a":1}', "content_type": "application/json"},
    "redirect": {"status": 307, "headers": {"Location": "http://x/süß?a=%20"}},
    "refusal": {
        "body": b"{}",
        "status": 405,
        "headers": {"Allow": "GET,HEAD", "Content-Type": "application/json"},
    },
    "nothing": {"status": 204},
    "empty": {"body": b""},
}


@pytest.fixture
async def url() -> AsyncIterator[URL]:
    """``/ours/KIND`` is an `ApiResponse`, ``/theirs/KIND`` aiohttp's own of the same.

    ``/repeated/body`` is one response of all the requests that may share it.
    """
    app = web.Application()
    body = KINDS["body"]["body"]
    shared = repeated_json(body)

    async def answered(request: web.Request) -> web.Response:
        make = ApiResponse if request.match_info["whose"] == "ours" else web.Response
        return make(**KINDS[request.match_info["kind"]])

    async def repeated(request: web.Request) -> web.Response:
        return shared if may_share(request) else encoded_json(body)

    async def redirected(request: web.Request) -> web.Response:
        if request.path.startswith("/repeated") and may_share(request):
            return repeated_redirect("http://there:1", "?authoritative=true")
        location = f"http://there:1{request.rel_url.raw_path}?authoritative=true"
        return ApiResponse(status=307, headers={"Location": location})

    app.router.add_route("*", "/repeated/redirect/{topic}", redirected)
    app.router.add_route("*", "/plain/redirect/{topic}", redirected)
    app.router.add_route("*", "/repeated/body", repeated)
    app.router.add_route("*", "/{whose}/{kind}", answered)
    async with serving(app) as address:
        yield URL(address)


async def sent(url: URL, *requests: str) -> bytes:
    """All bytes until the server closes the connection."""
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write("".join(f"{request}\r\n\r\n" for request in requests).encode())
    async with asyncio.timeout(60):
        data = await reader.read()
    writer.close()
    data = re.sub(rb"\r\nDate: [^\r]+ GMT\r\n", b"\r\nDate: now\r\n", data)
    # There, aiohttp names itself and its version.
    ours = rb"\r\nX-Content-Type-Options: nosniff\r\n"
    return re.sub(rb"\r\nServer: Python[^\r]+\r\n", ours, data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
@pytest.mark.parametrize(
    "ending",
    ["HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.0", "HTTP/1.0\r\nConnection: close"],
)
async def test_a_response_is_byte_for_byte_what_aiohttp_sends(
    url: URL, kind: str, method: str, ending: str
) -> None:
    ours, theirs = [
        await sent(url, f"{method} /{whose}/{kind} {ending}") for whose in ("ours", "theirs")
    ]
    assert ours == theirs
    assert ours.count(b"\r\nDate: now\r\n") == 1


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_connection_is_kept_alive_for_a_client_that_asks_for_it(
    url: URL, version: str
) -> None:
    kept = f"HTTP/{version}\r\nHost: x\r\nConnection: keep-alive"
    ours, theirs = [
        await sent(
            url, *[f"GET /{whose}/{kind} {kept}" for kind in KINDS], f"GET /{whose}/body HTTP/1.0"
        )
        for whose in ("ours", "theirs")
    ]
    assert ours == theirs
    assert ours.count(b"\r\nDate: now\r\n") == len(KINDS) + 1


@pytest.mark.parametrize(
    "last", ["HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.0", "HTTP/1.0\r\nHost: x"]
)
async def test_a_repeated_response_suits_each_request(url: URL, last: str) -> None:
    usual = "HTTP/1.1\r\nHost: x"
    ours, theirs = [
        await sent(
            url,
            f"GET /{whose}/body {usual}",
            f"HEAD /{whose}/body {usual}",
            f"GET /{whose}/body HTTP/1.0\r\nConnection: keep-alive",
            f"GET /{whose}/body {usual}",
            f"GET /{whose}/body {last}",
        )
        for whose in ("repeated", "theirs")
    ]
    assert ours == theirs
    assert ours.count(b"\r\nDate: now\r\n") == 5


async def test_a_repeated_redirect_leads_each_request_to_its_own_path(url: URL) -> None:
    usual = "HTTP/1.1\r\nHost: x"
    repeated, plain = [
        await sent(
            url,
            f"GET /{whose}/redirect/t1 {usual}",
            f"GET /{whose}/redirect/a%20b%0d%0ac {usual}",
            f"HEAD /{whose}/redirect/t2 {usual}",
            f"GET /{whose}/redirect/t3 HTTP/1.0\r\nConnection: keep-alive",
            f"GET /{whose}/redirect/t1 HTTP/1.0",
        )
        for whose in ("repeated", "plain")
    ]
    assert repeated.replace(b"/repeated/", b"/plain/") == plain
    assert (
        plain.count(b"\r\nLocation: http://there:1/plain/redirect/t1?authoritative=true\r\n") == 2
    )
    assert plain.count(b"\r\nDate: now\r\n") == 5


async def test_a_repeated_response_has_the_date_of_each_request(url: URL) -> None:
    first: list[bytes] = []

    async def is_another() -> bool:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET /repeated/body HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        first.append(head)
        return head != first[0]

    await eventually(is_another, what="another date")


async def test_a_header_that_would_end_early_is_not_sent(
    url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "split", {"headers": {"Location": "http://x/\r\nSet-Cookie: a"}})
    assert await sent(url, "GET /ours/split HTTP/1.0") == b""


@pytest.mark.parametrize(
    "met",
    [
        SessionExpired("the session has expired"),
        SessionMoved("taken over"),
        StoreClosed("the store is closed"),
        Ambiguous("no answer"),
        ConnectionLoss("not sent"),
        PeerRefused("StoreClosed", "the store is closed"),
        PeerRefused("ConnectionLoss", "not sent"),
    ],
    ids=repr,
)
def test_an_error_that_may_pass_is_answered_with_503_and_retry_after(
    met: BrokerCtlError,
) -> None:
    answer = from_error(met)
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


def test_an_error_that_does_not_pass_is_answered_without_retry_after() -> None:
    for met, status in ((NoAuth("no"), 500), (NamespaceMissing("no"), 404), (Fenced("no"), 409)):
        answer = from_error(met)
        assert answer.status == status
        assert "Retry-After" not in answer.headers
    assert from_error(PeerRefused("NoSuchError", "no")).status == 409
