"""Updates of the first page: shared, bounded, and only for those who may see it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import pytest
from aiohttp import web

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits.rates import FailedAuthentications
from broker_ctl.console.web import live
from tests.api.console.test_acts import VIEWER, Browser, browser
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S, eventually

SECURED: Final = ApiRules(CLUSTER, **admitting(f"admin:{TOKEN}", {"admin"}))
PATHS: Final = ("/bundles", "/history", "/drains", "/partitions")
TIMEOUT: Final = aiohttp.ClientTimeout(total=PATIENCE_S)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_INTERVAL_S", 0.01)
    monkeypatch.setattr(live, "_SHARED_S", 0.0)


@asynccontextmanager
async def stream(broker: Broker, token: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(timeout=TIMEOUT) as session,
        session.get(f"{broker.url}/ui/live", headers=headers) as reply,
    ):
        yield reply


async def update(reply: aiohttp.ClientResponse) -> str:
    lines: list[str] = []
    async for raw in reply.content:
        line = raw.decode().rstrip("\n")
        if not line:
            return "\n".join(lines)
        assert line.startswith("data: ")
        lines.append(line.removeprefix("data: "))
    return ""


async def test_updates_follow_the_leader_at_every_daemon(leader: Broker, follower: Broker) -> None:
    for broker in (leader, follower):
        async with stream(broker) as reply:
            assert reply.content_type == "text/event-stream"
            assert "1.25 times the mean usage" in await update(reply)
            leader.world.leader_id = None
            while "No leader can be asked" not in await update(reply):
                pass
        leader.world.leader_id = leader.broker_id


async def test_a_stream_ends_before_the_limit_of_requests(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_LIFE_S", 0.05)
    async with stream(leader) as reply:
        assert (await reply.read()).count(b"\n\n") >= 1


async def test_the_number_of_streams_is_bounded(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_MOST_STREAMS", 1)
    async with stream(leader) as first:
        await update(first)
        async with stream(leader) as second:
            assert second.status == 503


async def test_a_stranger_gets_no_updates() -> None:
    async with serving_brokers([free_port()], SECURED) as [broker]:
        async with stream(broker) as refused:
            assert refused.status == 401
        async with stream(broker, TOKEN) as admitted:
            assert "times the mean usage" in await update(admitted)


async def test_strangers_who_wait_for_their_refusal_hold_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "_MOST_STREAMS", 1)
    answered, refuse = asyncio.Event(), FailedAuthentications.answer
    waiting = 0

    async def late(
        self: FailedAuthentications, origin: str, response: web.StreamResponse
    ) -> web.StreamResponse:
        nonlocal waiting
        waiting += 1
        await answered.wait()
        return await refuse(self, origin, response)

    monkeypatch.setattr(FailedAuthentications, "answer", late)
    async with serving_brokers([free_port()], SECURED) as [broker]:
        api = broker.api
        assert api is not None
        async with asyncio.TaskGroup() as group:
            strangers = [group.create_task(status_of(broker)) for _ in range(3)]
            await eventually(lambda: waiting == 3)
            async with stream(broker, TOKEN) as admitted:
                assert "times the mean usage" in await update(admitted)
            await eventually(lambda: api._request_classes.in_flight == 0)
            answered.set()
        assert [one.result() for one in strangers] == [401] * 3


async def status_of(broker: Broker) -> int:
    async with stream(broker) as reply:
        return reply.status


async def test_one_role_leaves_streams_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_OF_ROLE", 1)
    lines = f"admin:{TOKEN}\nviewer:{VIEWER}"
    rules = ApiRules(CLUSTER, **admitting(lines, {"admin"}, {"viewer"}))
    async with (
        serving_brokers([free_port()], rules) as [broker],
        stream(broker, VIEWER) as first,
    ):
        await update(first)
        async with stream(broker, VIEWER) as second:
            assert second.status == 503
        async with stream(broker, TOKEN) as other:
            assert other.status == 200


async def test_a_daemon_that_cannot_answer_now_does_not_forbid(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_ADMISSION", "/control/v1/none")
    async with stream(leader) as busy:
        assert busy.status == 503


async def test_a_stopping_daemon_does_not_wait_for_its_consoles() -> None:
    async with serving_brokers([free_port()]) as [broker], stream(broker) as reply:
        await update(reply)
        assert broker.api is not None
        broker.api._request_classes.close()
        await reply.read()


@pytest.mark.parametrize("path", PATHS)
async def test_each_live_page_names_its_updates_and_gets_them(leader: Broker, path: str) -> None:
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        async with session.get(f"{leader.url}/ui{path}?topic=x") as reply:
            page = await reply.text()
            assert f'hx-sse:connect="/ui/live{path}?topic=x"' in page
        async with session.get(f"{leader.url}/ui/live{path}?topic=x") as reply:
            assert reply.status == 200
            assert "<" in await update(reply)


async def test_clients_of_one_page_and_right_share_its_rendering(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_SHARED_S", 60.0)
    async with stream(leader) as first, stream(leader) as second:
        assert await update(first) == await update(second)


async def test_what_a_client_may_do_is_not_shared_with_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "_SHARED_S", 60.0)
    lines = f"admin:{TOKEN}\nviewer:{VIEWER}"
    rules = ApiRules(CLUSTER, **admitting(lines, {"admin"}, {"viewer"}))
    async with (
        serving_brokers([free_port()], rules) as [broker],
        browser() as admin,
        browser() as viewer,
    ):
        for session, token in ((admin, TOKEN), (viewer, VIEWER)):
            await Browser(session, broker.url).post("/ui/sign-in", {"token": token})
        async with (
            admin.get(f"{broker.url}/ui/live", timeout=TIMEOUT) as first,
            viewer.get(f"{broker.url}/ui/live", timeout=TIMEOUT) as second,
        ):
            assert "Pause the balancer" in await update(first)
            assert "Pause the balancer" not in await update(second)
