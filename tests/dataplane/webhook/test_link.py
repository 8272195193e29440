"""Calls are numbered and meant for one instance, so that one that comes late changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

import pytest
from aiohttp import web

from broker_ctl import codec
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane, WebhookReplicas
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, DataPlaneUnreachable, HttpError
from broker_ctl.http_client import HttpClient, HttpReply, Sign
from broker_ctl.lab.time import ManualClock
from docs.examples.reference_broker import ReferenceBroker
from tests.support.http.web_server import free_port, serving
from tests.support.replicas.replica_planes import ORDERS, TOPIC_ID, instruction, state
from tests.support.time.waiting import PATIENCE_S

SECRET = "shared-by-both"
LEFT, RIGHT = Ring.even(Namespace("public", "default"), 2).bundles
QUARTER, _ = LEFT.cut((0x40000000,))


class HoldingClient(HttpClient):
    """Keeps the next call to one path on its way, until the test lets it arrive."""

    def __init__(self) -> None:
        super().__init__(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 20)
        self.held_path = ""
        self.held_skips = 0
        self._held: tuple[str, str, Any] = ("", "", None)
        self.sent: list[tuple[str, Any]] = []

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        allow_redirects: bool = False,
        sign: Sign | None = None,  # noqa: ARG002
        ssl: SSLContext | None = None,  # noqa: ARG002
    ) -> HttpReply:
        if json is not None:
            self.sent.append(
                (url.partition("/dataplane/v1")[2], codec.decode_object(codec.encode(json)))
            )
        is_held = bool(self.held_path) and url.endswith(self.held_path)
        if is_held and self.held_skips:
            self.held_skips -= 1
        elif is_held:
            self.held_path, self._held = "", (method, url, json)
            raise HttpError("no answer in time")
        return await super().request(
            method,
            url,
            json=json,
            content=content,
            timeout_s=timeout_s,
            allow_redirects=allow_redirects,
        )

    async def arrive(self) -> int:
        """The status of the answer, for which no caller waits any more."""
        method, url, json = self._held
        return (await super().request(method, url, json=json)).status


@pytest.fixture
async def http() -> AsyncIterator[HoldingClient]:
    async with HoldingClient() as client:
        yield client


def plane_at(url: str, http: HttpClient) -> WebhookDataPlane:
    return WebhookDataPlane(url, http, ManualClock(), failure_timeout_s=3)


@asynccontextmanager
async def process(http: HttpClient) -> AsyncIterator[tuple[ReferenceBroker, WebhookDataPlane]]:
    broker = ReferenceBroker(SECRET, None, broker_id=1)
    async with serving(broker.app()) as url:
        yield broker, plane_at(url, http)


async def test_a_load_that_arrives_behind_its_fence_is_not_carried_out(
    http: HoldingClient,
) -> None:
    async with process(http) as (_, plane):
        http.held_path = wire.LOAD
        with pytest.raises(DataPlaneUnreachable):
            await plane.load(LEFT, 5)
        await plane.fence(LEFT)
        assert await http.arrive() == 409
        assert await plane.loaded() == {}


LATE: dict[str, Callable[[WebhookDataPlane], Awaitable[object]]] = {
    wire.FENCE: lambda plane: plane.fence(QUARTER),
    wire.UNLOAD: lambda plane: plane.unload(LEFT, 1.0),
    wire.SPLIT: lambda plane: plane.split(LEFT, dict.fromkeys(LEFT.cut((0x40000000,)), 6)),
    wire.RENEW: lambda plane: plane.renew(LEFT, 6),
}


@pytest.mark.parametrize("path", LATE)
async def test_a_late_call_before_a_load_does_not_change_it(http: HoldingClient, path: str) -> None:
    async with process(http) as (_, plane):
        await plane.load(LEFT, 5)
        http.held_path = path
        with pytest.raises(DataPlaneUnreachable):
            await LATE[path](plane)
        await plane.load(LEFT, 5)
        assert await http.arrive() == 409
        assert await plane.loaded() == {LEFT: 5}


async def test_a_deletion_that_arrives_late_leaves_the_replica_that_was_made_again(
    http: HoldingClient,
) -> None:
    async with process(http) as (_, plane):
        replicas = WebhookReplicas(plane.link)
        await replicas.become_follower([instruction(state(2, 1, (1, 2)))], {})
        gone = ReplicaStop(ORDERS, TOPIC_ID, 1, is_deleted=True)
        http.held_path = replica_wire.STOP
        with pytest.raises(DataPlaneUnreachable):
            await replicas.stop_replicas([gone])
        assert await replicas.stop_replicas([gone]) == []
        await replicas.become_follower([instruction(state(2, 2, (1, 2)))], {})
        assert await http.arrive() == 409
        assert await replicas.replicas() == [HeldReplica(ORDERS, TOPIC_ID, 2)]


async def test_a_late_call_of_the_daemon_before_is_refused(http: HoldingClient) -> None:
    async with process(http) as (_, plane):
        http.held_path = wire.LOAD
        with pytest.raises(DataPlaneUnreachable):
            await plane.load(LEFT, 5)
        after = plane_at(plane.link._url, http)
        await after.fence(LEFT)
        assert await http.arrive() == 409
        assert await after.loaded() == {}


async def test_a_late_call_of_the_daemon_before_for_another_bundle_is_refused(
    http: HoldingClient,
) -> None:
    """It died; no later daemon names this bundle, and their authority would cover it."""
    async with process(http) as (_, plane):
        http.held_path = wire.LOAD
        with pytest.raises(DataPlaneUnreachable):
            await plane.load(LEFT, 5)
        after = plane_at(plane.link._url, http)
        await after.load(RIGHT, 6)
        assert await http.arrive() == 409
        assert await after.loaded() == {RIGHT: 6}


async def test_a_late_call_of_the_daemon_before_is_refused_once_another_has_looked(
    http: HoldingClient,
) -> None:
    """A bundle loaded after the look would be served under the authority of the later daemon."""
    async with process(http) as (_, plane):
        await plane.load(RIGHT, 4)
        http.held_path = wire.LOAD
        with pytest.raises(DataPlaneUnreachable):
            await plane.load(LEFT, 5)
        after = plane_at(plane.link._url, http)
        assert await after.loaded() == {RIGHT: 4}
        assert await http.arrive() == 409
        assert await after.loaded() == {RIGHT: 4}


async def test_a_late_attachment_of_the_daemon_before_fences_no_later_daemon(
    http: HoldingClient,
) -> None:
    """Either of its two requests may be late."""
    async with process(http) as (broker, plane):
        http.held_path = wire.ATTACH
        with pytest.raises(DataPlaneUnreachable):
            await plane.loaded()
        after = plane_at(plane.link._url, http)
        await after.load(LEFT, 5)
        assert await http.arrive() == 200
        await after.load(LEFT, 6)
        first = broker.calls.attach({})
        later = plane_at(plane.link._url, http)
        await later.load(LEFT, 7)
        with pytest.raises(DataPlaneFenced, match="of a daemon before"):
            broker.calls.attach({wire.CALL: first[wire.FIRST_CALL]})
        await later.load(LEFT, 8)
        assert await later.loaded() == {LEFT: 8}


async def test_a_lost_confirmation_is_made_up_for_with_another_number(
    http: HoldingClient,
) -> None:
    async with process(http) as (_, plane):
        http.held_path, http.held_skips = wire.ATTACH, 1
        with pytest.raises(DataPlaneUnreachable):
            await plane.load(LEFT, 5)
        await plane.load(LEFT, 5)
        assert await http.arrive() == 409
        await plane.load(LEFT, 6)
        assert await plane.loaded() == {LEFT: 6}


async def test_loaded_asks_the_process_that_was_attached_to(http: HoldingClient) -> None:
    port = free_port()
    plane = plane_at(f"http://127.0.0.1:{port}", http)
    async with serving(ReferenceBroker(SECRET, None).app(), port):
        assert await plane.loaded() == {}
    async with serving(ReferenceBroker(SECRET, None).app(), port):
        http.sent.clear()
        assert await plane.loaded() == {}
        assert [path for path, _ in http.sent] == ["/attach", "/attach"]


async def test_the_start_of_a_second_daemon_fences_no_calls(http: HoldingClient) -> None:
    """A second daemon that was started by mistake gets as far as its start."""
    async with process(http) as (_, plane):
        await plane.load(LEFT, 5)
        await plane_at(plane.link._url, http).start()
        await plane.load(LEFT, 6)


async def test_all_that_is_sent_at_once_is_numbered_in_that_order(http: HoldingClient) -> None:
    async with process(http) as (_, plane), asyncio.TaskGroup() as tasks:
        for number in range(20):
            bundle = RIGHT if number % 2 else LEFT
            tasks.create_task(plane.load(bundle, number), name=f"load {number}")
    loads = [body for path, body in http.sent if path == "/bundles/load"]
    first = wire.CALLS_OF_A_DAEMON + 1
    assert {body["token"]: body[wire.CALL] for body in loads} == {
        number: first + number for number in range(20)
    }
    assert [path for path, _ in http.sent].count("/attach") == 2


async def test_a_new_process_is_attached_to_after_it_refuses_a_call(http: HoldingClient) -> None:
    port = free_port()
    plane = plane_at(f"http://127.0.0.1:{port}", http)
    async with serving(ReferenceBroker(SECRET, None).app(), port):
        await plane.load(LEFT, 1)
    another = ReferenceBroker(SECRET, None)
    async with serving(another.app(), port):
        # It was meant for the process before, not for the one that is there now.
        with pytest.raises(DataPlaneUnreachable, match="412"):
            await plane.load(LEFT, 1)
        assert list(another.table) == []
        assert plane.instance_id == another.instance_id
        await plane.load(LEFT, 1)
        assert await plane.loaded() == {LEFT: 1}


async def test_instructions_are_refused_by_a_process_that_replaced_the_one_they_were_meant_for(
    http: HoldingClient,
) -> None:
    port = free_port()
    plane = plane_at(f"http://127.0.0.1:{port}", http)
    replicas = WebhookReplicas(plane.link)
    async with serving(ReferenceBroker(SECRET, None, broker_id=1).app(), port):
        await plane.start()
        replicas.expect(plane.instance_id)
        assert await replicas.become_leader([instruction(state(1, 1, (1,)))]) == []
    another = ReferenceBroker(SECRET, None, broker_id=1)
    async with serving(another.app(), port):
        with pytest.raises(DataPlaneUnreachable, match="412"):
            await replicas.become_leader([instruction(state(1, 1, (1,)))])
        with pytest.raises(DataPlaneUnreachable):
            await replicas.answer_proposals([IsrAnswer(ORDERS, None, is_granted=False)])
        # The daemon knows by now, and the caller that keeps its replicas does not yet.
        for _ in range(2):
            await plane.loaded()
            with pytest.raises(DataPlaneUnreachable, match=f"is {another.instance_id}"):
                await replicas.become_leader([instruction(state(1, 1, (1,)))])
        assert await replicas.replicas() == []
        replicas.expect(plane.instance_id)
        assert await replicas.become_leader([instruction(state(1, 1, (1,)))]) == []


async def test_calls_that_wait_for_one_attachment_share_its_failure(http: HoldingClient) -> None:
    plane = plane_at(f"http://127.0.0.1:{free_port()}", http)
    calls = [plane.fence(LEFT), plane.fence(RIGHT), plane.fence(LEFT)]
    tasks = [asyncio.get_running_loop().create_task(call, name="fence") for call in calls]
    await asyncio.wait(tasks)
    assert all(isinstance(task.exception(), DataPlaneUnreachable) for task in tasks)
    assert [path for path, _ in http.sent] == ["/attach"]


async def test_a_call_fails_when_the_attachment_that_it_waits_for_is_cancelled() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    app = web.Application()
    app.router.add_post(wire.ATTACH, answer)
    async with HoldingClient() as http, serving(app) as url:
        plane = plane_at(url, http)
        first = asyncio.get_running_loop().create_task(plane.fence(LEFT), name="first")
        second = asyncio.get_running_loop().create_task(plane.fence(RIGHT), name="second")
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(DataPlaneUnreachable, match="not attached"):
            await second
        assert first.cancelled()


class _OfBefore(ReferenceBroker):
    """A process without numbers of calls, which refuses fields that it does not know."""

    def attach(self, _: dict[str, Any]) -> dict[str, Any]:
        raise DataPlaneRefused("no such path")

    def load(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body.keys() == {"bundle", "token", wire.PRELOAD}
        return super().load(body)


async def test_a_process_of_the_release_before_gets_its_calls_as_before(
    http: HoldingClient,
) -> None:
    async with serving(_OfBefore(SECRET, None).app()) as url:
        plane = plane_at(url, http)
        for _ in range(2):
            await plane.load(LEFT, 5)
        assert await plane.loaded() == {LEFT: 5}
        assert [path for path, _ in http.sent].count("/attach") == 1


class _OnceNumbered(ReferenceBroker):
    """Takes each attachment for a first one, as the release before did."""

    def attach(self, _: dict[str, Any]) -> dict[str, Any]:
        return dict(self.calls.attach({}))


async def test_a_process_that_takes_no_confirmation_still_gets_numbered_calls(
    http: HoldingClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(_OnceNumbered(SECRET, None).app()) as url:
        plane = plane_at(url, http)
        await plane.load(LEFT, 5)
        assert http.sent[-1][1][wire.CALL] == 2 * wire.CALLS_OF_A_DAEMON
        assert "until the first call of this daemon" in caplog.text
        assert await plane.loaded() == {LEFT: 5}


@pytest.mark.parametrize("reply", [{}, {"first_call": "7"}, {"first_call": -1}])
async def test_a_malformed_attachment_is_refused(
    http: HoldingClient, reply: dict[str, object]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"instance_id": "i", **reply})

    app = web.Application()
    app.router.add_post(wire.ATTACH, answer)
    async with serving(app) as url:
        with pytest.raises(DataPlaneRefused, match="attach"):
            await plane_at(url, http).load(LEFT, 5)


async def test_a_later_call_is_known_as_fenced(http: HoldingClient) -> None:
    async with process(http) as (broker, plane):
        await plane.load(LEFT, 5)
        broker.calls.admit({wire.CALL: wire.CALLS_OF_A_DAEMON + 1000}, LEFT)
        with pytest.raises(DataPlaneFenced, match="comes after"):
            await plane.load(LEFT, 6)
