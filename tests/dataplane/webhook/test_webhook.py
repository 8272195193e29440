"""The webhook adapter against the reference broker, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.dataplane.bundles.interface import DataPlane, Unloaded
from broker_ctl.dataplane.webhook import wire
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, DataPlaneUnreachable
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.time import ManualClock
from docs.examples.reference_broker import ReferenceBroker
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S, eventually

SECRET = "shared-by-both"
NAMESPACE = Namespace("public", "default")
(WHOLE,) = Ring.even(NAMESPACE, 1).bundles
LEFT, RIGHT = Ring.even(NAMESPACE, 2).bundles
TOPIC = f"persistent://{NAMESPACE}/orders"


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as client:
        yield client


@dataclass
class Pair:
    """A broker process, and the daemon's view of it."""

    broker: ReferenceBroker
    plane: WebhookDataPlane
    clock: ManualClock
    http: HttpClient
    url: str

    async def publish(self, topic: str = TOPIC) -> int:
        reply = await self.http.request("POST", f"{self.url}/publish", json={"topic": topic})
        return reply.status


def plane_at(url: str, http: HttpClient, clock: ManualClock) -> WebhookDataPlane:
    return WebhookDataPlane(url, http, clock, failure_timeout_s=3)


@pytest.fixture
async def pair(http: HttpClient) -> AsyncIterator[Pair]:
    """Both directions: the broker process pulls its authority from the plane's answers."""
    clock = ManualClock()
    port = free_port()
    plane = plane_at(f"http://127.0.0.1:{port}/", http, clock)

    async def authority(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {SECRET}"
        return web.json_response(wire.authority_json(*plane.authority()))

    daemon = web.Application()
    daemon.router.add_get(wire.AUTHORITY, authority)
    async with serving(daemon) as daemon_url:
        broker = ReferenceBroker(SECRET, daemon_url + wire.AUTHORITY, pull_s=0.02)
        async with serving(broker.app(), port) as url:
            await plane.start()
            yield Pair(broker, plane, clock, http, url)


async def test_the_webhook_plane_implements_the_protocol(pair: Pair) -> None:
    plane: DataPlane = pair.plane
    assert plane.instance_id == pair.broker.instance_id != ""
    assert await plane.loaded() == {}


async def test_the_life_of_a_bundle(pair: Pair) -> None:
    plane = pair.plane
    await plane.load(WHOLE, 1)
    await plane.renew(WHOLE, 2)
    await plane.split(WHOLE, {LEFT: 3, RIGHT: 3})
    assert await plane.loaded() == {LEFT: 3, RIGHT: 3}
    await plane.merge((LEFT, RIGHT), WHOLE, 4)
    assert await plane.loaded() == {WHOLE: 4}
    assert await plane.statistics() == {WHOLE: BundleStats()}
    assert await plane.usage() is None
    assert await plane.unload(WHOLE, 1) == Unloaded(0, is_confirmed=True)
    await plane.load(WHOLE, 5)
    await plane.fence(WHOLE)
    assert await plane.loaded() == {}


async def test_an_old_token_is_fenced_and_says_why(pair: Pair) -> None:
    await pair.plane.load(WHOLE, 5)
    with pytest.raises(DataPlaneFenced, match=r"409 .*token 4 is below 5"):
        await pair.plane.load(LEFT, 4)


async def test_what_is_not_loaded_is_refused(pair: Pair) -> None:
    calls: tuple[Callable[[], Awaitable[Any]], ...] = (
        lambda: pair.plane.renew(WHOLE, 1),
        lambda: pair.plane.split(WHOLE, {LEFT: 1, RIGHT: 1}),
        lambda: pair.plane.merge((LEFT, RIGHT), WHOLE, 1),
        lambda: pair.plane.topics(WHOLE),
        lambda: pair.plane.topic_statistics(WHOLE),
        lambda: pair.plane.unload_topic(TOPIC),
    )
    for call in calls:
        with pytest.raises(DataPlaneRefused, match=r"404 .*is not loaded"):
            await call()


async def test_the_broker_process_acts_only_while_it_is_granted(pair: Pair) -> None:
    await pair.plane.load(WHOLE, 7)
    assert await pair.publish() == 404
    pair.plane.grant(1, pair.clock.time_s + 30)
    await eventually(lambda: published(pair))
    assert await pair.plane.topics(WHOLE) == (TOPIC,)
    assert await pair.plane.topic_statistics(WHOLE) == {TOPIC: BundleStats(topics=1)}
    pair.plane.grant(1, 0)
    await eventually(lambda: refused(pair))
    assert await pair.plane.unload(WHOLE, 1) == Unloaded(1, is_confirmed=True)


async def published(pair: Pair) -> bool:
    return await pair.publish() == 200


async def refused(pair: Pair) -> bool:
    return await pair.publish() == 404


async def test_without_answers_the_broker_process_ends_by_itself(http: HttpClient) -> None:
    """The daemon dies after one grant of 300 ms, and cannot withdraw it."""
    grants = [wire.authority_json(1, 300)]

    async def first_only(request: web.Request) -> web.Response:
        if not grants:
            raise web.HTTPServiceUnavailable
        return web.json_response(grants.pop())

    daemon = web.Application()
    daemon.router.add_get(wire.AUTHORITY, first_only)
    async with serving(daemon) as daemon_url:
        broker = ReferenceBroker(SECRET, daemon_url + wire.AUTHORITY, pull_s=0.02)
        async with serving(broker.app()) as url:
            pair = Pair(broker, plane_at(url, http, ManualClock()), ManualClock(), http, url)
            await pair.plane.load(WHOLE, 1)
            await eventually(lambda: published(pair))
            granted_until_s = broker.authority.deadline_s
            await eventually(lambda: refused(pair))
            assert broker.clock.now_s() >= granted_until_s


async def test_authority_is_rounded_down_and_never_negative() -> None:
    clock = ManualClock(1_000.0)
    async with HttpClient(timeout_s=1, max_body_bytes=10) as http:
        plane = plane_at("http://127.0.0.1:1", http, clock)
        assert plane.authority() == (0, 0)
        plane.grant(4, 1_001.2345)
        assert plane.authority() == (4, 1234)
        clock.time_s = 1_002
        assert plane.authority() == (4, 0)
        plane.grant(5, 1_003)
        await plane.stop()
        assert plane.authority() == (0, 0)


async def test_a_new_process_is_another_instance(http: HttpClient) -> None:
    port = free_port()
    plane = plane_at(f"http://127.0.0.1:{port}", http, ManualClock())
    async with serving(ReferenceBroker(SECRET, None).app(), port):
        await plane.start()
        await plane.load(WHOLE, 1)
        first = plane.instance_id
    async with serving(ReferenceBroker(SECRET, None).app(), port):
        # A refusal says as well who refuses.
        with pytest.raises(DataPlaneUnreachable, match="412"):
            await plane.renew(WHOLE, 2)
        assert plane.instance_id != first
        with pytest.raises(DataPlaneRefused):
            await plane.renew(WHOLE, 2)


async def test_silence_is_noticed_and_ends_with_a_reply(pair: Pair) -> None:
    assert not pair.plane.is_silent
    pair.clock.time_s += 3.1
    assert pair.plane.is_silent
    await pair.plane.loaded()
    assert not pair.plane.is_silent


async def test_a_process_that_is_not_there_is_unreachable(http: HttpClient) -> None:
    plane = plane_at(f"http://127.0.0.1:{free_port()}", http, ManualClock())
    with pytest.raises(DataPlaneUnreachable):
        await plane.start()
    assert plane.is_silent


async def test_a_wrong_secret_is_refused(pair: Pair) -> None:
    async with HttpClient(token="guess", timeout_s=PATIENCE_S, max_body_bytes=1000) as http:
        plane = plane_at(pair.url, http, pair.clock)
        with pytest.raises(DataPlaneRefused, match="401"):
            await plane.start()


def answering(body: object, status: int = 200, delay_s: float = 0.0) -> web.Application:
    """A broker process that answers everything alike, once a daemon has attached."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == wire.ATTACH and status == 200 and delay_s:
            return web.json_response({"instance_id": "x", "first_call": 1})
        await asyncio.sleep(delay_s)
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    return app


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_error_that_may_pass_is_reported_as_unreachable(
    http: HttpClient, status: int
) -> None:
    async with serving(answering({"instance_id": "x", "reason": "full"}, status)) as url:
        with pytest.raises(DataPlaneUnreachable, match=f"{status} full"):
            await plane_at(url, http, ManualClock()).load(WHOLE, 1)


@pytest.mark.parametrize(
    "body", [[], "x", {"instance_id": "x"}, {"instance_id": "x", "bundles": 5}]
)
async def test_a_malformed_reply_is_refused(http: HttpClient, body: object) -> None:
    async with serving(answering(body)) as url:
        with pytest.raises(DataPlaneRefused):
            await plane_at(url, http, ManualClock()).loaded()


@pytest.mark.parametrize("body", [{}, {"instance_id": ""}, {"instance_id": "x" * 1000}])
async def test_a_reply_without_an_instance_id_is_refused(http: HttpClient, body: object) -> None:
    async with serving(answering(body)) as url:
        with pytest.raises(DataPlaneRefused, match="instance_id"):
            await plane_at(url, http, ManualClock()).load(WHOLE, 1)


async def test_an_unload_may_take_as_long_as_its_deadline(http: HttpClient) -> None:
    body = {"instance_id": "x", "topics_closed": 3, "is_confirmed": False}
    async with (
        HttpClient(token=SECRET, timeout_s=0.05, max_body_bytes=1000) as hasty,
        serving(answering(body, delay_s=0.3)) as url,
    ):
        plane = plane_at(url, hasty, ManualClock())
        assert await plane.unload(WHOLE, 20.0) == Unloaded(3, is_confirmed=False)
        with pytest.raises(DataPlaneUnreachable, match="no answer"):
            await plane.fence(WHOLE)


async def test_a_late_answer_of_a_dead_process_does_not_bring_it_back(http: HttpClient) -> None:
    """Two calls under way: the older one is answered last, by the process that died."""
    clock = ManualClock()
    old_may_answer = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        is_old = request.path == wire.USAGE
        if is_old:
            await old_may_answer.wait()
        instance_id = "old" if is_old else "new"
        body: dict[str, Any] = {"instance_id": instance_id, "usage": None, "bundles": {}}
        return web.json_response(body)

    async def attach(_: web.Request) -> web.Response:
        return web.json_response({"instance_id": "new"}, status=404)

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    app.router.add_post(wire.ATTACH, attach)
    async with serving(app) as url, asyncio.TaskGroup() as tasks:
        plane = plane_at(url, http, clock)
        older = tasks.create_task(plane.usage(), name="older call")
        await asyncio.sleep(0)
        clock.time_s += 1
        await plane.loaded()
        old_may_answer.set()
        await older
        assert plane.instance_id == "new"


@pytest.mark.parametrize(
    ("fields", "refuses"),
    [
        ({}, False),
        ({"storage_refuses_old_tokens": True}, True),
        ({"storage_refuses_old_tokens": "yes"}, False),
    ],
)
async def test_the_storage_refuses_old_owners_only_where_the_broker_process_says_so(
    http: HttpClient, fields: dict[str, object], refuses: bool
) -> None:
    async def state(_: web.Request) -> web.Response:
        row = {"instance_id": "i", "bundles": {}, "authority": {}, **fields}
        return web.json_response(row)

    app = web.Application()
    app.router.add_get("/dataplane/v1/state", state)
    async with serving(app) as url:
        plane = plane_at(url, http, ManualClock())
        await plane.start()
        assert plane.declared.storage_refuses_old_tokens is refuses


async def test_the_version_is_what_the_broker_process_says_last_if_it_can_be_shown(
    http: HttpClient,
) -> None:
    said: dict[str, object] = {}

    async def state(_: web.Request) -> web.Response:
        return web.json_response({"instance_id": "i", "bundles": {}, "authority": {}, **said})

    async def attach(_: web.Request) -> web.Response:
        return web.json_response({"instance_id": "i", "first_call": 1})

    app = web.Application()
    app.router.add_get(wire.STATE, state)
    app.router.add_post(wire.ATTACH, attach)
    async with serving(app) as url:
        plane = plane_at(url, http, ManualClock())
        for value, version in {
            "4.2.0": "4.2.0",
            "": "",
            "4.2.1-\u00e9": "4.2.1-\u00e9",
            "4.2\n": "",
            "x" * 128: "x" * 128,
            "x" * 129: "",
            7: "",
        }.items():
            said["version"] = value
            await plane.start()
            assert plane.declared.version == version
        said["version"] = "4.2.0"
        await plane.loaded()
        del said["version"]
        await plane.loaded()
        assert plane.declared.version == ""
