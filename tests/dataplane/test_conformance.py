"""The conformance test: passes an honest broker process, and names what a broken one breaks."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from broker_ctl.clock import SystemClock
from broker_ctl.core.bundle import Bundle
from broker_ctl.dataplane import wire
from broker_ctl.dataplane.authority import Authority
from broker_ctl.dataplane.conformance.runner import CheckResult, check_broker
from broker_ctl.errors import DataPlaneUnreachable, StartError
from broker_ctl.http import HttpClient
from tests.support.reference_broker import Fields, ReferenceBroker
from tests.support.web_server import free_port, serving

SECRET = "shared-by-both"
PULL_S = 0.1


class Forgetful(ReferenceBroker):
    """Forgets the tokens of a bundle with the bundle."""

    def unload(self, body: Fields) -> Fields:
        self.table = type(self.table)()
        return {"topics_closed": 0, "is_confirmed": True}


class Gullible(ReferenceBroker):
    """Takes any token, by starting over for each."""

    def load(self, body: Fields) -> Fields:
        entries = {entry.bundle: entry.token for entry in self.table}
        entries[wire.bundle(body.get("bundle"))] = wire.count(body, "token")
        self.table = type(self.table)()
        for bundle, token in entries.items():
            self.table.load(bundle, token)
        return {}


class Stubborn(ReferenceBroker):
    """Confirms an unload and goes on serving."""

    def unload(self, body: Fields) -> Fields:
        return {"topics_closed": 0, "is_confirmed": True}

    def fence(self, body: Fields) -> Fields:
        return {}


class Immortal(ReferenceBroker):
    """Never believes that its authority has ended."""

    def state(self, query: object) -> Fields:
        state = super().state({})
        state["authority"]["remaining_ms"] = max(1, state["authority"]["remaining_ms"])
        return state


class Optimist(ReferenceBroker):
    """Counts its deadline from the answer, as if the way back had taken no time."""

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        reply = await http.request("GET", url)
        if reply.status == 200:
            epoch, remaining_ms = wire.authority(reply.json())
            self.authority = Authority(epoch, self.clock.now_s() + remaining_ms / 1000)


class Hoarder(ReferenceBroker):
    """Keeps the longer of two grants."""

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        before = self.authority
        await super().pull_authority(http, url)
        if self.authority.deadline_s < before.deadline_s:
            self.authority = before


class Nameless(ReferenceBroker):
    """Is somebody else at each reply."""

    def state(self, query: object) -> Fields:
        self.instance_id += "x"
        return super().state({})


class Careless(ReferenceBroker):
    """Lets everybody in."""

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        open_door = request.clone(headers={"Authorization": f"Bearer {SECRET}"})
        open_door._payload = request._payload
        open_door._match_info = request._match_info
        return await super()._guard(open_door, handler)


class Pushed(ReferenceBroker):
    """Never asks for authority."""

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        return


async def failures(kind: type[ReferenceBroker]) -> set[str]:
    """Names of the checks that a broker process of this kind does not pass."""
    port = free_port()
    broker = kind(SECRET, f"http://127.0.0.1:{port}{wire.AUTHORITY}", PULL_S)
    async with serving(broker.app()) as url:
        results = await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())
    for result in results:
        assert result.is_ok == (not result.expected), result
        assert result.is_ok == (not result.seen), result
    return {result.name for result in results if not result.is_ok}


async def test_the_reference_broker_keeps_every_promise_and_is_left_clean() -> None:
    port = free_port()
    broker = ReferenceBroker(SECRET, f"http://127.0.0.1:{port}{wire.AUTHORITY}", PULL_S)
    mine = Bundle.parse("public/default/0x00000000_0xffffffff")
    async with serving(broker.app()) as url:
        broker.table.load(mine, 1)
        for _ in range(2):
            results = await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())
            assert [result for result in results if not result.is_ok] == []
            assert len(results) > 20
            assert [entry.bundle for entry in broker.table] == [mine]


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Forgetful, {"token outlives unload and fence"}),
        (
            Gullible,
            {
                "load: smaller token is 409",
                "load: token covers every overlap",
                "renew: raises the token",
                "split: and again",
                "merge: and again",
                "token outlives unload and fence",
            },
        ),
        (Immortal, {"authority: less replaces more", "authority: expires by itself"}),
        (Optimist, {"authority: counted from the asking"}),
        (Hoarder, {"authority: less replaces more"}),
        (Careless, {"wrong or no secret is 401"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
async def test_a_broken_broker_is_told_what_it_breaks(
    kind: type[ReferenceBroker], broken: set[str]
) -> None:
    assert await failures(kind) >= broken


async def test_a_broker_that_never_unloads_fails_wherever_it_shows() -> None:
    found = await failures(Stubborn)
    assert {"unload: confirms, and again", "fence: at once, and again"} <= found


async def test_an_instance_id_that_changes_fails() -> None:
    assert "instance_id: the same in every reply" in await failures(Nameless)


async def test_a_broker_that_does_not_ask_for_authority_is_told_where_to() -> None:
    port = free_port()
    broker = Pushed(SECRET, "http://127.0.0.1:1/", PULL_S)
    async with serving(broker.app()) as url:
        results = await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())
    (pulled,) = [r for r in results if r.name == "authority: pulled with the secret"]
    assert f"127.0.0.1:{port}{wire.AUTHORITY} (is it configured there?)" in pulled.expected


async def test_nobody_at_the_url_is_one_clear_error() -> None:
    with pytest.raises(DataPlaneUnreachable, match="state: "):
        await check_broker(
            f"http://127.0.0.1:{free_port()}", SECRET, ("127.0.0.1", free_port()), SystemClock()
        )


async def test_a_daemon_that_still_runs_is_one_clear_error() -> None:
    async with (
        serving(ReferenceBroker(SECRET, None).app()) as url,
        serving(web.Application()) as daemon,
    ):
        port = int(daemon.rpartition(":")[2])
        with pytest.raises(StartError, match="cannot stand in for the daemon"):
            await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())


async def test_what_answers_but_is_no_broker_fails_every_check() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="It works!")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", hello)
    async with serving(app) as url:
        results: tuple[CheckResult, ...] = await check_broker(
            url, SECRET, ("127.0.0.1", free_port()), SystemClock()
        )
    assert not any(result.is_ok for result in results)


def test_checks_do_not_leave_tasks_behind() -> None:
    async def run() -> int:
        with pytest.raises(DataPlaneUnreachable):
            await check_broker("http://127.0.0.1:1", SECRET, ("127.0.0.1", 0), SystemClock())
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
