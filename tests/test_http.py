"""The one HTTP client, against real sockets."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S

SECRET = "a-secret-that-is-seen-nowhere"
LIMIT = 1000


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": request.method,
            "authorization": request.headers.get("Authorization"),
            "body": (await request.read()).decode(),
        },
        status=int(request.query.get("status", 200)),
    )


async def flood(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse()
    if "announced" in request.query:
        reply.content_length = 100 * LIMIT
    await reply.prepare(request)
    for _ in range(100):
        await reply.write(b"x" * LIMIT)
    return reply


async def exact(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * LIMIT)


async def silent(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def stalling(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse()
    await reply.prepare(request)
    await reply.write(b"x")
    await asyncio.sleep(30)
    return reply


async def redirect(request: web.Request) -> web.Response:
    raise web.HTTPTemporaryRedirect(request.query["to"])


def application() -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/echo", echo)
    app.router.add_get("/flood", flood)
    app.router.add_get("/exact", exact)
    app.router.add_get("/silent", silent)
    app.router.add_get("/stalling", stalling)
    app.router.add_get("/redirect", redirect)
    return app


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serving(application()) as served:
        yield served


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=LIMIT) as http:
        yield http


async def test_json_goes_out_and_comes_back_with_the_secret(client: HttpClient, url: str) -> None:
    reply = await client.request("POST", f"{url}/echo", json={"a": [1]})
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json() == {
        "method": "POST",
        "authorization": f"Bearer {SECRET}",
        "body": '{"a":[1]}',
    }


async def test_the_secret_may_be_bytes_or_absent(url: str) -> None:
    for token, sent in ((b"abc", "Bearer abc"), (None, None)):
        async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=LIMIT) as http:
            assert (await http.request("GET", f"{url}/echo")).json()["authorization"] == sent


@pytest.mark.parametrize("status", [404, 409, 500, 503])
async def test_any_status_is_a_reply(client: HttpClient, url: str, status: int) -> None:
    reply = await client.request("GET", f"{url}/echo?status={status}")
    assert reply.status == status
    assert reply.json()["method"] == "GET"


async def test_a_redirect_is_followed_only_where_asked(client: HttpClient, url: str) -> None:
    target = f"{url}/redirect?to=/echo"
    assert (await client.request("GET", target)).status == 307
    assert (await client.request("GET", target, allow_redirects=True)).status == 200


async def test_the_secret_does_not_follow_to_another_origin(client: HttpClient, url: str) -> None:
    async with serving(application()) as elsewhere:
        reply = await client.request(
            "GET", f"{url}/redirect?to={elsewhere}/echo", allow_redirects=True
        )
    assert reply.json()["authorization"] is None


@pytest.mark.parametrize("query", ["", "?announced"])
async def test_a_longer_reply_than_allowed_is_an_error(
    client: HttpClient, url: str, query: str
) -> None:
    with pytest.raises(HttpError, match=f"GET {url}/flood.*longer than {LIMIT} bytes"):
        await client.request("GET", f"{url}/flood{query}")
    # The next exchange does not read the rest of that one.
    assert (await client.request("GET", f"{url}/echo")).json()["method"] == "GET"


async def test_a_reply_of_just_the_allowed_length_is_taken(client: HttpClient, url: str) -> None:
    assert len((await client.request("GET", f"{url}/exact")).body) == LIMIT


@pytest.mark.parametrize("path", ["silent", "stalling"])
async def test_an_exchange_ends_by_its_deadline(client: HttpClient, url: str, path: str) -> None:
    start_s = time.monotonic()
    with pytest.raises(HttpError, match=rf"GET {url}/{path}: no answer within 0\.2 s"):
        await client.request("GET", f"{url}/{path}", timeout_s=0.2)
    # The client's own is far longer.
    assert time.monotonic() - start_s < PATIENCE_S


async def test_an_error_of_an_unreachable_server_names_its_address(client: HttpClient) -> None:
    url = f"http://127.0.0.1:{free_port()}/x"
    with pytest.raises(HttpError, match=f"GET {url}: "):
        await client.request("GET", url)


@pytest.mark.parametrize("url", ["http://", "127.0.0.1:80", "ftp://127.0.0.1/x", "http://a:b@c/"])
async def test_a_useless_url_is_an_http_error(client: HttpClient, url: str) -> None:
    with pytest.raises(HttpError, match="GET "):
        await client.request("GET", url)


async def test_a_reply_that_is_not_json_is_an_http_error(client: HttpClient, url: str) -> None:
    reply = await client.request("GET", f"{url}/exact")
    with pytest.raises(HttpError, match="status 200 is not JSON"):
        reply.json()


async def test_a_closed_client_takes_nothing_any_more(client: HttpClient, url: str) -> None:
    await client.close()
    await client.close()
    with pytest.raises(HttpError, match="closed"):
        await client.request("GET", f"{url}/echo")


async def test_the_secret_is_in_no_log_and_no_error(
    client: HttpClient, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.request("GET", f"{url}/echo")
    for path in ("silent", "flood"):
        with pytest.raises(HttpError) as caught:
            await client.request("GET", f"{url}/{path}", timeout_s=0.2)
        assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in repr(client)


async def test_cancelling_a_request_cancels_it(client: HttpClient, url: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.request("GET", f"{url}/silent")


async def test_tls_trusts_only_the_given_context(client: HttpClient) -> None:
    server, trusting = serving_context(), trusting_context()
    async with serving(application(), ssl=server) as url:
        with pytest.raises(HttpError, match="certificate"):
            await client.request("GET", f"{url}/echo")
        async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=LIMIT, ssl=trusting) as http:
            assert (await http.request("GET", f"{url}/echo")).status == 200


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("PUT", 1), ("DELETE", 1), ("POST", 1)])
async def test_a_write_that_is_cut_off_is_not_sent_again(method: str, times: int) -> None:
    came: list[str] = []

    async def cut(request: web.Request) -> web.Response:
        came.append(request.method)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    application = web.Application()
    application.router.add_route("*", "/", cut)
    async with (
        serving(application) as url,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=LIMIT) as http,
    ):
        with pytest.raises(HttpError):
            await http.request(method, url)
    assert came == [method] * times
