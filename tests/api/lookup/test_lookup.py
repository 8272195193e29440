"""Pulsar's lookup over HTTP, with real sockets."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.broker.lookup.lookup import Answer, Redirect
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    BundleBusy,
    BundleMoving,
    BundleReclaimable,
    Draining,
    NoBroker,
)
from broker_ctl.http_client import HttpClient, HttpReply
from tests.support.clusters.fake_services import CLUSTER, NAMESPACE, RING, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

BY_HEADER = {"X-Pulsar-ListenerName": "external"}


def path_of(local: str) -> str:
    return f"/lookup/v2/topic/persistent/t/ns/{quote(local, safe='')}"


async def test_the_owner_is_answered_by_any_broker(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    topic = Topic("persistent", NAMESPACE, "orders")
    leader.world.assign(RING.bundle_of(topic), leader.broker_id)
    reply = await http.request("GET", follower.url + path_of("orders"))
    assert reply.status == 200
    assert reply.json() == {
        "brokerId": leader.broker_id,
        "brokerUrl": leader.urls.native_url,
        "httpUrl": leader.url,
        "nativeUrl": leader.urls.native_url,
        "brokerUrlSsl": "",
    }


async def test_a_cold_bundle_goes_follower_leader_target(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.lookup.placement = follower.broker_id
    first = await http.request("GET", follower.url + path_of("x"))
    assert first.status == 307
    assert first.headers["Location"] == f"{leader.url}{path_of('x')}?authoritative=false"
    second = await http.request("GET", first.headers["Location"])
    assert second.status == 307
    assert second.headers["Location"] == f"{follower.url}{path_of('x')}?authoritative=true"
    third = await http.request("GET", second.headers["Location"])
    assert (third.status, third.json()["brokerId"]) == (200, follower.broker_id)


async def test_a_redirect_carries_the_proof_of_its_choice_and_no_earlier_one(
    http: HttpClient, leader: Broker, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, seen = leader.lookup.find, []

    async def prove(topic: Topic, *, proof: str | None = None, **how: Any) -> Answer:
        seen.append(proof)
        found = await find(topic, **how)
        return replace(found, proof="new") if isinstance(found, Redirect) else found

    monkeypatch.setattr(leader.lookup, "find", prove)
    leader.lookup.placement = follower.broker_id
    asked = f"{leader.url}{path_of('x')}?listenerName=external&placementProof=old"
    reply = await http.request("GET", asked)
    assert reply.headers["Location"] == (
        f"{follower.url}{path_of('x')}?listenerName=external&authoritative=true&placementProof=new"
    )
    await http.request("GET", leader.url + path_of("x"))
    # Without one it is empty, unlike for a protocol that cannot carry one.
    assert seen == ["old", ""]


@pytest.mark.parametrize("local", ["süß-主题", "50%", "a%2Fb", "a b+c", "q?x=1#y", "{x}|^"])
async def test_a_topic_is_found_by_its_decoded_name(
    http: HttpClient, leader: Broker, follower: Broker, local: str
) -> None:
    where = await http.request("GET", f"{leader.url}{path_of(local)}/bundle")
    expected = RING.bundle_of(Topic("persistent", NAMESPACE, local)).range
    assert (where.status, where.body.decode()) == (200, str(expected))
    sent_on = await http.request("GET", follower.url + path_of(local))
    assert sent_on.status == 307
    # The client writes a path in its shortest form; as it was sent, so it is handed on.
    sent = str(URL(leader.url + path_of(local)))
    assert sent_on.headers["Location"] == f"{sent}?authoritative=false"


@pytest.mark.parametrize("local", ["a/b", "a//b"])
async def test_a_name_that_no_command_could_write_is_refused(
    http: HttpClient, leader: Broker, local: str
) -> None:
    assert (await http.request("GET", leader.url + path_of(local))).status == 412


async def test_a_listener_is_asked_for_by_query_or_header(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    reply = await http.request("GET", f"{leader.url}{path_of('x')}?listenerName=external")
    assert reply.json()["brokerUrl"] == leader.urls.listeners[0].native_url
    assert reply.json()["httpUrl"] == leader.url
    unknown = await http.request("GET", f"{leader.url}{path_of('x')}?listenerName=nobody")
    assert unknown.status == 412
    leader.world.owners.clear()
    sent_on = await http.request("GET", f"{follower.url}{path_of('x')}?listenerName=external")
    assert sent_on.headers["Location"].endswith("?listenerName=external&authoritative=false")
    # Clients do not repeat the header at the broker that they are sent to.
    for query in ("", "?listenerName="):
        asked = f"{follower.url}{path_of('x')}{query}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(asked, headers=BY_HEADER, allow_redirects=False) as moved,
        ):
            assert moved.headers["Location"] == (
                f"{leader.url}{path_of('x')}?listenerName=external&authoritative=false"
            )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/lookup/v2/topic/persistent/t/unknown/x", 404),
        ("/lookup/v2/topic/transient/t/ns/x", 412),
        ("/lookup/v2/topic/persistent/t%20/ns/x", 412),
        ("/lookup/v2/topic/persistent/t/cluster/ns/x", 412),
        ("/lookup/v2/topic/persistent/t/cluster/ns/x/bundle", 412),
        ("/lookup/v2/topic/persistent/t/ns/x?authoritative=perhaps", 400),
        ("/lookup/v2/topic/persistent/t/ns", 404),
        ("/lookup/v2/topic/persistent/t/ns/%00", 412),
    ],
)
async def test_a_bad_name_is_refused_with_a_reason(
    http: HttpClient, leader: Broker, path: str, status: int
) -> None:
    reply = await http.request("GET", leader.url + path)
    assert reply.status == status
    assert reply.json()["reason"]


@pytest.mark.parametrize(
    "error",
    [
        BundleMoving("m"),
        BundleReclaimable("m"),
        Draining("m"),
        AuthorityLost("m"),
        NoBroker("m"),
        BundleBusy("b", "other"),
    ],
)
async def test_an_error_that_may_pass_is_answered_with_503(
    http: HttpClient, leader: Broker, error: BrokerCtlError
) -> None:
    leader.lookup.refuse = error
    reply = await http.request("GET", leader.url + path_of("x"))
    assert reply.status == 503
    assert reply.json() == {"error": type(error).__name__, "reason": str(error)}


async def test_a_lookup_without_a_leader_is_answered_with_503(
    http: HttpClient, follower: Broker
) -> None:
    follower.world.leader_id = None
    reply = await http.request("GET", follower.url + path_of("x"))
    assert (reply.status, reply.json()["error"]) == (503, "NoLeader")


async def test_a_bug_shows_no_traceback(http: HttpClient, leader: Broker) -> None:
    leader.lookup.refuse = ZeroDivisionError("a private matter")
    reply = await http.request("GET", leader.url + path_of("x"))
    assert reply.status == 500
    assert b"private" not in reply.body
    assert b"internal error 1" in reply.body


async def test_a_target_without_an_address_of_the_scheme_is_a_412(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    bare = leader.world.brokers[leader.broker_id]
    leader.world.brokers[leader.broker_id] = type(bare)(bare.broker_id, web_url_tls="https://x:1")
    reply = await http.request("GET", follower.url + path_of("x"))
    assert reply.status == 412


class Gate:
    """Holds lookups up until it opens."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.waiting = 0

    async def __call__(self) -> None:
        self.waiting += 1
        await self.opened.wait()


async def at_the_gate(
    http: HttpClient, url: str, gate: Gate, number: int, then: Callable[[], object]
) -> list[HttpReply]:
    """Runs ``then`` while ``number`` lookups are held up; their replies."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(http.request("GET", url)) for _ in range(number)]
        await eventually(lambda: gate.waiting == number)
        result = then()
        if asyncio.iscoroutine(result):
            await result
        gate.opened.set()
    return [task.result() for task in tasks]


async def test_one_lookup_too_many_is_refused_and_the_others_are_answered(
    http: HttpClient,
) -> None:
    async with serving_brokers([free_port()], ApiRules(CLUSTER, max_lookups=2)) as [broker]:
        broker.lookup.gate = gate = Gate()

        async def one_more() -> None:
            reply = await http.request("GET", broker.url + path_of("x"))
            assert (reply.status, reply.json()["error"]) == (503, "Busy")

        replies = await at_the_gate(http, broker.url + path_of("x"), gate, 2, one_more)
        assert [reply.status for reply in replies] == [200, 200]
        assert (await http.request("GET", broker.url + path_of("x"))).status == 200


async def test_the_bound_of_lookups_can_change(http: HttpClient) -> None:
    async with serving_brokers([free_port()], ApiRules(CLUSTER, max_lookups=1)) as [broker]:
        broker.lookup.gate = gate = Gate()
        assert broker.api is not None
        broker.api.limit_lookups(3)
        replies = await at_the_gate(http, broker.url + path_of("x"), gate, 3, lambda: None)
        assert [reply.status for reply in replies] == [200, 200, 200]


async def test_a_flood_of_clients_keeps_no_order_out(http: HttpClient) -> None:
    async with serving_brokers([free_port()], ApiRules(CLUSTER, max_requests=2)) as [broker]:
        broker.lookup.gate = gate = Gate()

        async def others() -> None:
            for path in ("/admin/v2/brokers", path_of("x")):
                reply = await http.request("GET", broker.url + path)
                assert (reply.status, reply.json()["error"]) == (503, "Busy")
            for path in ("/livez", "/metrics", "/control/v1/status", "/dataplane/v1/authority"):
                assert (await http.request("GET", broker.url + path)).status == 200

        await at_the_gate(http, broker.url + path_of("x"), gate, 2, others)


async def test_a_plus_is_a_blank_as_java_s_clients_write_it(
    http: HttpClient, leader: Broker
) -> None:
    spaced, plussed = (Topic("persistent", NAMESPACE, local) for local in ("a b", "a+b"))
    bundles = {RING.bundle_of(topic).range for topic in (spaced, plussed)}
    assert len(bundles) == 2
    for encoded, topic in (("a+b", spaced), ("a%20b", spaced), ("a%2Bb", plussed)):
        where = f"{leader.url}/lookup/v2/topic/persistent/t/ns/{encoded}/bundle"
        reply = await http.request("GET", where)
        assert reply.body.decode() == str(RING.bundle_of(topic).range), encoded


async def test_a_topic_name_that_is_not_utf_8_is_refused(http: HttpClient, leader: Broker) -> None:
    where = URL(f"{leader.url}/lookup/v2/topic/persistent/t/ns/a%ff", encoded=True)
    assert (await http.request("GET", str(where))).status == 412


async def test_what_memory_has_is_answered_without_a_search(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    follower.lookup.refuse = AssertionError("not from memory")
    follower.lookup.remembered[Topic("persistent", NAMESPACE, "orders")] = leader.urls
    reply = await http.request("GET", follower.url + path_of("orders"))
    assert (reply.status, reply.json()["brokerId"]) == (200, leader.broker_id)
