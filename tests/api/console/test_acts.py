"""Acts of the console are requests of its client: dry run first, with its rights, and audited."""

from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import aiohttp
import pytest

from broker_ctl import codec
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.security.audit.log import AuditRules
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

VIEWER: Final = "a-secret-of-a-viewer"
LINES: Final = f"admin:{TOKEN}\nviewer:{VIEWER}"
SECURED: Final = ApiRules(CLUSTER, **admitting(LINES, {"admin"}, {"viewer"}))
BUNDLE: Final = str(BUNDLES[0])


class Browser:
    """What a browser sends: cookies of the daemon, and the page of each POST."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._url + path) as reply:
            return reply.status, await reply.text()

    async def post(
        self, path: str, fields: dict[str, str], origin: str | None = "own"
    ) -> tuple[int, str]:
        headers = {} if origin is None else {"Origin": self._url if origin == "own" else origin}
        async with self._session.post(
            self._url + path, data=fields, headers=headers, allow_redirects=False
        ) as reply:
            self.headers = reply.headers
            return reply.status, await reply.text()


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


def move(to: Broker) -> dict[str, str]:
    return {"act": "move", "bundle": BUNDLE, "to": to.broker_id}


async def test_a_move_begins_with_a_dry_run_that_names_command_and_request(
    leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    async with browser() as session:
        for at in (leader, follower):
            opened = Browser(session, at.url)
            status, page = await opened.get(f"/ui/act?{urlencode(move(follower))}")
            assert status == 200, page
            assert "This was a dry run: nothing has been done." in page
            assert f"broker-ctl bundles move {BUNDLE} {follower.broker_id}" in page
            assert "PUT /admin/v2/namespaces/t/ns/" in page
            assert leader.world.owners[BUNDLES[0]] == leader.broker_id


async def test_the_form_does_what_the_dry_run_showed(leader: Broker, follower: Broker) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    async with browser() as session:
        status, page = await Browser(session, follower.url).post("/ui/act", move(follower))
    assert status == 200
    assert "Move the bundle: done" in page
    assert leader.world.owners[BUNDLES[0]] == follower.broker_id


async def test_a_reason_goes_with_the_act(leader: Broker) -> None:
    fields = {"act": "pause", "reason": "network maintenance"}
    async with browser() as session:
        opened = Browser(session, leader.url)
        _, page = await opened.get(f"/ui/act?{urlencode(fields)}")
        assert "broker-ctl pause --reason &#39;network maintenance&#39;" in page
        assert leader.dependencies.balancer.directives.pause is None
        status, _ = await opened.post("/ui/act", fields)
    pause = leader.dependencies.balancer.directives.pause
    assert status == 200
    assert pause is not None
    assert (pause.order.who, pause.order.why) == ("console", "network maintenance")


@pytest.mark.parametrize("origin", [None, "https://elsewhere.example", "null"])
async def test_no_other_page_can_act_sign_in_or_sign_out(
    leader: Broker, follower: Broker, origin: str | None
) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    async with browser() as session:
        opened = Browser(session, leader.url)
        for path in ("/ui/act", "/ui/sign-in", "/ui/sign-out"):
            status, _ = await opened.post(path, {**move(follower), "token": TOKEN}, origin)
            assert status == 403, path
    assert leader.world.owners[BUNDLES[0]] == leader.broker_id


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"act": "destroy"}, 404),
        ({"act": "move", "bundle": BUNDLE}, 412),
        ({"act": "move", "bundle": "x", "to": "b"}, 412),
        ({"act": "move", "bundle": BUNDLE, "to": "nobody:1"}, 409),
        ({"act": "drain", "broker": "x" * 400}, 412),
        ({"act": "drain", "broker": "b:1\x1b"}, 412),
    ],
)
async def test_what_makes_no_sense_is_refused(
    leader: Broker, fields: dict[str, str], status: int
) -> None:
    async with browser() as session:
        opened = Browser(session, leader.url)
        assert (await opened.get(f"/ui/act?{urlencode(fields)}"))[0] == status
        assert (await opened.post("/ui/act", fields))[0] == status


async def test_a_read_only_console_offers_no_act_and_serves_none() -> None:
    rules = ApiRules(CLUSTER, is_console_read_only=True)
    async with serving_brokers([free_port()], rules) as [broker], browser() as session:
        opened = Browser(session, broker.url)
        assert "Pause the balancer" not in (await opened.get("/ui/"))[1]
        assert (await opened.post("/ui/act", {"act": "pause"}))[0] == 404
        assert broker.dependencies.balancer.directives.pause is None


async def test_a_session_has_the_rights_of_its_token_until_it_is_signed_out(
    tmp_path: Path,
) -> None:
    audit = tmp_path / "audit.log"
    async with (
        serving_brokers([free_port()], SECURED, audit=AuditRules(audit)) as [broker],
        browser() as session,
    ):
        opened = Browser(session, broker.url)
        assert (await opened.post("/ui/sign-in", {"token": "wrong"}))[0] == 401
        assert (await opened.get("/ui/"))[0] == 401
        for role, token, is_offered in (("viewer", VIEWER, False), ("admin", TOKEN, True)):
            assert (await opened.post("/ui/sign-in", {"token": token}))[0] == 303
            cookie = opened.headers["Set-Cookie"]
            assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/ui"))
            assert token not in cookie
            status, page = await opened.get("/ui/")
            assert status == 200
            assert f"<span>{role}</span>" in page
            assert ("Pause the balancer" in page) == is_offered
            status, _ = await opened.post("/ui/act", {"act": "pause", "reason": "a test"})
            assert status == (200 if is_offered else 403)
        pause = broker.dependencies.balancer.directives.pause
        assert pause is not None
        assert pause.order.who == "admin"
        assert (await opened.post("/ui/sign-out", {}))[0] == 303
        assert (await opened.get("/ui/"))[0] == 401
        await broker.dependencies.audit.close()
    events = [codec.decode(line.encode()) for line in audit.read_text().splitlines()]
    assert ("admin", "PUT", "200") in {
        (event.get("principal"), event.get("operation"), event.get("status")) for event in events
    }
    assert TOKEN not in audit.read_text()


async def test_a_session_is_ended_by_its_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_ctl.console.web.sessions._LIFE_S", 0)
    async with serving_brokers([free_port()], SECURED) as [broker], browser() as session:
        opened = Browser(session, broker.url)
        _ = await opened.post("/ui/sign-in", {"token": TOKEN})
        assert (await opened.get("/ui/"))[0] == 401


async def test_the_number_of_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_ctl.console.web.sessions._MOST_SESSIONS", 1)
    async with (
        serving_brokers([free_port()], SECURED) as [broker],
        browser() as first,
        browser() as second,
    ):
        for session in (first, second):
            status, _ = await Browser(session, broker.url).post("/ui/sign-in", {"token": TOKEN})
            assert status == 303
        assert (await Browser(first, broker.url).get("/ui/"))[0] == 401
        assert (await Browser(second, broker.url).get("/ui/"))[0] == 200
