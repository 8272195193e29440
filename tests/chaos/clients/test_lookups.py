"""A lookup that goes in a circle is a violation, and so is an answer of the wrong status."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from broker_ctl.core.model.names import Topic
from broker_ctl.http_client import HttpClient
from tests.chaos.clients.lookups import MOST_HOPS, Lookups
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S

TOPIC = Topic.parse("persistent://t/ns/a b")


@pytest.fixture
async def lookups() -> AsyncIterator[Lookups]:
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=10_000) as http:
        yield Lookups(http)


def broker(hops: int, status: int) -> web.Application:
    """Redirects to itself ``hops`` times, then answers."""
    left = [hops]

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/lookup/v2/topic/persistent/t/ns/a b"
        if left[0]:
            left[0] -= 1
            return web.Response(status=307, headers={"Location": str(request.rel_url)})
        return web.Response(status=status)

    app = web.Application()
    app.router.add_get("/{path:.+}", answer)
    return app


async def test_hops_of_what_is_found_are_counted(lookups: Lookups) -> None:
    for hops in (0, 2, 2):
        async with serving(broker(hops, 200)) as url:
            assert await lookups.ask(url, TOPIC) == 200
    assert lookups.hops == {0: 1, 2: 2}
    assert lookups.statuses == {200: 3}
    assert lookups.violations == []


async def test_later_and_no_answer_are_what_trouble_looks_like(lookups: Lookups) -> None:
    async with serving(broker(1, 503)) as url:
        assert await lookups.ask(url, TOPIC) == 503
    assert await lookups.ask(f"http://127.0.0.1:{free_port()}", TOPIC) == 0
    assert lookups.violations == []
    assert lookups.hops == {}


async def test_a_circle_is_a_violation(lookups: Lookups) -> None:
    async with serving(broker(1000, 200)) as url:
        await lookups.ask(url, TOPIC)
    (said,) = lookups.violations
    assert said.startswith(f"lookups: {TOPIC} was sent round")
    assert said.count(" > ") == MOST_HOPS


@pytest.mark.parametrize("status", [404, 409, 412, 500])
async def test_a_status_after_which_a_client_does_not_ask_again_is_a_violation(
    lookups: Lookups, status: int
) -> None:
    async with serving(broker(1, status)) as url:
        await lookups.ask(url, TOPIC)
    (said,) = lookups.violations
    assert f"was answered {status}" in said
