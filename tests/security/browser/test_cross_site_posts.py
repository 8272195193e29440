"""A real Chromium on the machine of a daemon, with a page of another site open.

A POST without a body and without Content-Type is judged by Origin and Sec-Fetch-Site alone: no
page can make this browser send one across sites without them.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from tests.pipeline.report.browser import Tab, required_tab
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import eventually

CHANGE: Final = "/admin/v2/brokers/configuration/maxConcurrentLookupRequest/1"
# All ways of a page to send a POST; the last three ask the browser to keep quiet on the page.
WAYS: Final = (
    "fetch(target, {method: 'POST', mode: 'no-cors'})",
    "fetch(target, {method: 'POST', mode: 'no-cors', body: ''})",
    "fetch(target, {method: 'POST', mode: 'no-cors', keepalive: true})",
    "navigator.sendBeacon(target)",
    "post({enctype: 'text/plain'})",
    "post({enctype: 'application/x-www-form-urlencoded'})",
    "fetch(target, {method: 'POST', mode: 'no-cors', referrerPolicy: 'no-referrer'})",
    "post({rel: 'noreferrer'})",
    "post({}, 'sandbox')",
)
# A form in a frame of its own: several can be under way.
POST: Final = """
function post(attributes, sandbox) {
  const frame = document.createElement('iframe');
  if (sandbox) frame.sandbox = 'allow-forms allow-scripts';
  const rest = Object.entries(attributes).map(([name, value]) => `${name}="${value}"`).join(' ');
  frame.srcdoc = `<form method=post action="${target}" ${rest}></form>
    <script>document.forms[0].submit()</script>`;
  document.body.append(frame);
}
"""


@pytest.fixture
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tab]:
    """A page of localhost: another site than 127.0.0.1, where the daemon is."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><body></body>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", answer)
    async with serving(app) as url, required_tab(request, tmp_path) as opened:
        await opened.show(url.replace("127.0.0.1", "localhost"), 800, "light")
        assert await opened.run("location.hostname") == "localhost"
        yield opened


async def send_all(page: Tab, url: str) -> None:
    await page.run(f"window.target = {url!r}; {POST}; {'; '.join(WAYS)}; 0")


@pytest.mark.slow
async def test_every_post_of_a_page_says_where_it_comes_from(page: Tab) -> None:
    seen: list[Mapping[str, str]] = []

    async def record(request: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(text="")

    app = web.Application()
    app.router.add_post("/", record)
    async with serving(app) as url:
        await send_all(page, f"{url}/")
        await eventually(lambda: len(seen) >= len(WAYS), what="all requests")
    for headers in seen:
        assert headers["sec-fetch-site"] == "cross-site"
        assert headers["origin"] == "null" or headers["origin"].startswith("http://localhost:")
    assert any("content-type" not in headers for headers in seen)


@pytest.mark.slow
async def test_no_post_of_a_page_changes_a_setting(page: Tab) -> None:
    async with serving_brokers([free_port()]) as [broker]:
        await send_all(page, f"{broker.url}{CHANGE}")

        def refusals() -> float:
            samples = broker.instruments.api.requests.samples()
            return sum(one.value for one in samples if one.labels["status"] == "403")

        await eventually(lambda: refusals() >= len(WAYS), what="each is refused")
        assert await broker.metadata.configuration.overrides() == {}
