"""The server itself: limits, malformed requests, start and stop."""

import asyncio
from dataclasses import replace

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http import bodies
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits import requests
from broker_ctl.errors import HttpError, StartError
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually


async def raw(broker: Broker, request: bytes) -> bytes:
    """The answer to these bytes."""
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_port_in_use_is_named(leader: Broker) -> None:
    port = int(leader.broker_id.split(":")[1])
    second = ApiServer(leader.dependencies, ApiRules(CLUSTER, port=port))
    with pytest.raises(StartError, match=rf"127\.0\.0\.1 port {port}.*in use.*webServicePort"):
        await second.start()
    await second.stop(0.1)


async def test_an_address_of_another_machine_is_named(leader: Broker) -> None:
    second = ApiServer(leader.dependencies, ApiRules(CLUSTER, address="192.0.2.1", port=0))
    with pytest.raises(StartError, match=r"192\.0\.2\.1 port 0"):
        await second.start()
    await second.stop(0.1)


async def test_a_long_body_is_refused(http: HttpClient) -> None:
    rules = ApiRules(CLUSTER, max_body_bytes=2048)
    async with serving_brokers([free_port()], rules) as [broker]:
        url = f"{broker.url}/admin/v2/namespaces/t/new"
        reply = await http.request("PUT", url, json={"filler": "x" * 4096})
        assert reply.status == 413
        assert reply.json()["reason"]
        assert (await http.request("PUT", url, json={"filler": "x" * 1024})).status == 204


async def test_a_body_must_say_that_it_is_json(leader: Broker) -> None:
    # What a form on a web page can send to a server on its visitor's machine.
    body = b'{"epoch":1,"bundle":"t/ns/0x00000000_0x40000000"}'
    answer = await raw(
        leader,
        b"POST /control/v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert leader.commands.obeyed == []


async def test_a_body_that_does_not_come_is_not_waited_for(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LIMIT_S", 0.1)
    answer = await raw(
        leader,
        b"POST /control/v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    )
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_request_that_hangs_is_ended(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_READ_LIMIT_S", 0.1)
    url = f"{leader.url}/lookup/v2/topic/persistent/t/ns/x"
    leader.lookup.gate = asyncio.Event().wait
    reply = await http.request("GET", url)
    assert (reply.status, reply.json()["error"]) == (503, "Timeout")
    # A deadline that something else has missed is a fault, and no reason to ask again.
    leader.lookup.gate, leader.lookup.refuse = None, TimeoutError()
    assert (await http.request("GET", url)).status == 500


def over_tls(broker: Broker) -> str:
    """The URL over TLS of a broker with two ports."""
    assert isinstance(broker.api, ApiServer)
    return f"https://127.0.0.1:{broker.api.port_tls}"


async def test_a_request_is_redirected_over_tls_only_where_it_came_over_tls() -> None:
    rules = ApiRules(CLUSTER, port_tls=0, tls=serving_context())
    async with (
        serving_brokers([free_port(), free_port()], rules) as (leader, follower),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=trusting_context()) as http,
    ):
        both = replace(leader.urls, web_url_tls=over_tls(leader))
        leader.world.brokers[leader.broker_id] = both
        path = "/control/v1/cluster"
        for asked, at in ((over_tls(follower), over_tls(leader)), (follower.url, leader.url)):
            sent_on = await http.request("GET", asked + path)
            assert (sent_on.status, sent_on.headers["Location"]) == (307, at + path)
            assert (await http.request("GET", at + path)).status == 200


async def test_a_server_with_a_tls_port_only_does_not_serve_plain_text(
    leader: Broker, http: HttpClient
) -> None:
    rules = ApiRules(CLUSTER, port=None, port_tls=0, tls=serving_context())
    only = ApiServer(leader.dependencies, rules)
    await only.start()
    try:
        async with HttpClient(
            timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=trusting_context()
        ) as safe:
            reply = await safe.request("GET", f"https://127.0.0.1:{only.port_tls}/livez")
            assert reply.status == 200
        with pytest.raises(HttpError):
            await http.request("GET", f"http://127.0.0.1:{only.port_tls}/livez")
        with pytest.raises(HttpError, match="certificate"):
            await http.request("GET", f"https://127.0.0.1:{only.port_tls}/livez")
    finally:
        await only.stop(1)


async def test_a_tls_port_in_use_is_named_and_the_other_port_let_go(leader: Broker) -> None:
    taken, other = int(leader.broker_id.split(":")[1]), free_port()
    rules = ApiRules(CLUSTER, port=other, port_tls=taken, tls=serving_context())
    second = ApiServer(leader.dependencies, rules)
    with pytest.raises(StartError, match=rf"port {taken}.*in use.*webServicePortTls"):
        await second.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", other)
    await second.stop(0.1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/admin/v2", 501),
        ("PATCH", "/admin/v2/namespaces/t/ns", 405),
        ("DELETE", "/metrics", 405),
        ("GET", "/control/v1/acquire", 405),
    ],
)
async def test_an_unknown_route_is_refused_as_json(
    http: HttpClient, leader: Broker, method: str, path: str, status: int
) -> None:
    reply = await http.request(method, leader.url + path)
    assert reply.status == status
    assert set(reply.json()) == {"error", "reason"}


@pytest.mark.parametrize("escape", [b"%3F", b"%3f"])
async def test_a_redirect_keeps_the_path_as_it_was_written(
    leader: Broker, follower: Broker, escape: bytes
) -> None:
    path = b"/lookup/v2/topic/persistent/t/ns/a" + escape + b"b%3D"
    answer = await raw(
        follower, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert b"Location: " + leader.url.encode() + path + b"?authoritative=false\r\n" in answer


async def test_a_whole_address_in_the_request_line_leads_nowhere_else(
    leader: Broker, follower: Broker
) -> None:
    path = b"/lookup/v2/topic/persistent/t/ns/x"
    answer = await raw(
        follower,
        b"GET http://evil:1" + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    assert b"Location: " + leader.url.encode() + path + b"?" in answer


async def test_a_line_break_in_a_query_stays_in_the_query(follower: Broker) -> None:
    answer = await raw(
        follower,
        b"GET /lookup/v2/topic/persistent/t/ns/x?listenerName=a%0D%0ASet-Cookie:%20b HTTP/1.1\r\n"
        b"Host: localhost\r\nConnection: close\r\n\r\n",
    )
    assert b"\r\nSet-Cookie" not in answer
    assert b"listenerName=a%0D%0ASet-Cookie" in answer


async def test_stopping_answers_what_is_in_progress_and_refuses_the_rest(
    http: HttpClient, leader: Broker
) -> None:
    assert leader.api is not None
    opened, path = asyncio.Event(), "/lookup/v2/topic/persistent/t/ns/x"
    entered = asyncio.Event()

    async def gate() -> None:
        entered.set()
        await opened.wait()

    leader.lookup.gate = gate
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(http.request("GET", leader.url + path))
        await entered.wait()
        stop = group.create_task(leader.api.stop(5))

        async def is_refused() -> bool:
            return (await http.request("GET", f"{leader.url}/livez")).status == 503

        await eventually(is_refused)
        assert not stop.done()
        opened.set()
    assert slow.result().status == 200


async def test_stopping_cuts_off_what_takes_too_long(http: HttpClient, leader: Broker) -> None:
    assert leader.api is not None
    entered = asyncio.Event()

    async def gate() -> None:
        entered.set()
        await asyncio.Event().wait()

    leader.lookup.gate = gate
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(
            asyncio.wait_for(
                _outcome(http, f"{leader.url}/lookup/v2/topic/persistent/t/ns/x"), PATIENCE_S
            )
        )
        await entered.wait()
        began_s = loop.time()
        await leader.api.stop(0.2)
        # It was not waited for until its client gave up.
        assert loop.time() - began_s < PATIENCE_S / 2
    assert slow.result() == "cut off"


async def _outcome(http: HttpClient, url: str) -> str:
    try:
        return str((await http.request("GET", url)).status)
    except HttpError:
        return "cut off"


async def test_a_free_port_can_be_asked_for(leader: Broker, http: HttpClient) -> None:
    rules = replace(ApiRules(CLUSTER), port=0)
    second = ApiServer(leader.dependencies, rules)
    await second.start()
    try:
        reply = await http.request("GET", f"http://127.0.0.1:{second.port}/livez")
        assert reply.status == 200
    finally:
        await second.stop(1)


async def test_no_timer_of_a_request_outlives_the_server(leader: Broker, http: HttpClient) -> None:
    second = ApiServer(leader.dependencies, replace(ApiRules(CLUSTER), port=0))
    await second.start()
    assert (await http.request("GET", f"http://127.0.0.1:{second.port}/livez")).status == 200
    deadlines = second._http._dispatcher._deadlines
    assert deadlines._queues
    await second.stop(1)
    assert not deadlines._queues
