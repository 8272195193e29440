"""A page becomes live in a real Chromium, however late or refused its first connection is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from broker_ctl.api.http.responses import ApiError
from broker_ctl.console.web import live
from broker_ctl.console.web.routes import ConsoleRoutes
from tests.pipeline.report.browser import Tab, required_tab
from tests.support.browser.clicks import there_is
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port

STREAM = "document.querySelector('#stream')"

pytestmark = pytest.mark.slow


@pytest.fixture
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tab]:
    async with required_tab(request, tmp_path) as opened:
        yield opened


async def test_an_extension_that_arrives_late_is_waited_for(
    page: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """htmx began without it, and the page was never live."""
    serve = ConsoleRoutes.static

    async def serve_late(self: ConsoleRoutes, request: web.Request) -> web.Response:
        if "hx-sse" in request.path:
            # For longer than htmx takes to begin: what the page says decides, not this time.
            await asyncio.sleep(0.5)
        return await serve(self, request)

    monkeypatch.setattr(ConsoleRoutes, "static", serve_late)
    async with serving_brokers([free_port()]) as [broker]:
        await page.show(f"{broker.url}/ui/", 1440, "light")
        await there_is(page, f"{STREAM}.textContent == 'live'")


async def test_a_first_connection_that_is_refused_is_tried_again(
    page: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the refusal says does not take the place of the page."""
    monkeypatch.setattr(live, "_MOST_STREAMS", 0)
    async with serving_brokers([free_port()]) as [broker]:
        await page.show(f"{broker.url}/ui/", 1440, "light")
        await there_is(page, f"{STREAM}.textContent == 'connection lost, trying again'")
        assert await page.run("!!document.querySelector('#updated h1')")
        monkeypatch.setattr(live, "_MOST_STREAMS", 64)
        await there_is(page, f"{STREAM}.textContent == 'live'")


async def test_a_page_whose_first_connection_is_forbidden_says_that_it_is_not_live(
    page: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveRoutes, "_admit", forbid)
    async with serving_brokers([free_port()]) as [broker]:
        await page.show(f"{broker.url}/ui/", 1440, "light")
        await there_is(page, f"{STREAM}.dataset.state == 'off'")


async def forbid(_: live.LiveRoutes, __: web.Request) -> None:
    raise ApiError(403, "this page may not be seen", kind="Forbidden")
