"""Which topics a namespace has: partitions by their number, others where they are loaded."""

from urllib.parse import quote

import pytest
from aiohttp import web

from broker_ctl.api.admin import topics
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import DataPlaneRefused
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, NAMESPACE, RING, TOPICS, Broker
from tests.support.http.web_server import serving

FIRST, *OTHERS = BUNDLES


def names(of: str = "") -> list[str]:
    found = [topic for topic in TOPICS if not of or of == str(RING.bundle_of(topic))]
    return sorted(map(str, found))


async def asked(http: HttpClient, broker: Broker, path: str) -> list[str]:
    reply = await http.request("GET", f"{broker.url}/admin/v2/{path}")
    assert reply.status == 200, reply.body
    found: list[str] = reply.json()
    return found


async def test_any_broker_lists_what_all_owners_have_loaded(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await leader.serve(FIRST)
    for bundle in OTHERS:
        await follower.serve(bundle)
    for broker in (leader, follower):
        assert await asked(http, broker, f"namespaces/{NAMESPACE}/topics") == names()
        assert await asked(http, broker, f"persistent/{NAMESPACE}") == names()
        assert await asked(http, broker, f"non-persistent/{NAMESPACE}") == []
        assert await asked(http, broker, f"persistent/{NAMESPACE}?bundle={FIRST.range}") == names(
            str(FIRST)
        )
        for bundle in BUNDLES:
            path = f"persistent/{NAMESPACE}/{bundle.range}"
            assert await asked(http, broker, path) == names(str(bundle))


async def test_a_list_of_topics_assigns_no_bundle_and_leaves_out_unowned_ones(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await follower.serve(FIRST)
    assert await asked(http, leader, f"namespaces/{NAMESPACE}/topics") == names(str(FIRST))
    assert list(leader.world.owners) == [FIRST]


@pytest.mark.parametrize(
    ("mode", "domains"),
    [
        ("PERSISTENT", {"persistent"}),
        ("NON_PERSISTENT", {"non-persistent"}),
        ("ALL", {"persistent", "non-persistent"}),
    ],
)
async def test_partitions_are_listed_by_their_number(
    http: HttpClient, leader: Broker, mode: str, domains: set[str]
) -> None:
    wanted = []
    for domain in ("persistent", "non-persistent"):
        topic = Topic(domain, NAMESPACE, "größe a+b%c")
        path = f"{domain}/{NAMESPACE}/{quote(topic.local, safe='')}/partitions"
        reply = await http.request("PUT", f"{leader.url}/admin/v2/{path}", json=3)
        assert reply.status == 204, reply.body
        if domain in domains:
            wanted += [f"{topic}-partition-{number}" for number in range(3)]
    found = await asked(http, leader, f"namespaces/{NAMESPACE}/topics?mode={mode}")
    assert found == sorted(wanted)


async def test_invalid_requests_are_refused(http: HttpClient, leader: Broker) -> None:
    for path, status in (
        ("namespaces/t/none/topics", 404),
        ("persistent/t/none", 404),
        (f"namespaces/{NAMESPACE}/topics?mode=SOME", 400),
        (f"persistent/{NAMESPACE}?bundle=nonsense", 412),
        (f"persistent/{NAMESPACE}/0x00000000_0x00000001", 412),
    ):
        reply = await http.request("GET", f"{leader.url}/admin/v2/{path}")
        assert reply.status == status, (path, reply.body)


async def test_more_names_than_fit_are_refused(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.serve(FIRST)
    monkeypatch.setattr(topics, "MOST_BYTES", len("".join(names(str(FIRST)))) - 1)
    reply = await http.request("GET", f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/topics")
    assert reply.status == 412


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"{}"),
        (200, b"["),
        (200, b'{"topics":3}'),
        (200, b'{"topics":[3]}'),
        (200, b'{"topics":["persistent://other/ns/x"]}'),
    ],
)
async def test_an_unreachable_owner_is_an_error_and_nothing_is_omitted(
    http: HttpClient, leader: Broker, status: int, body: bytes
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serving(app) as url:
        broker_id = url.removeprefix("http://")
        leader.world.brokers[broker_id] = BrokerUrls(broker_id, web_url=url)
        leader.world.assign(FIRST, broker_id)
        reply = await http.request("GET", f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/topics")
    assert reply.status == 503
    assert broker_id in reply.json()["reason"]


async def test_a_broker_process_that_cannot_answer_is_an_error_unless_its_bundle_is_gone(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.serve(FIRST)
    url, keeps = f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/topics", True

    async def refuse(_: object) -> tuple[str, ...]:
        if not keeps:
            del leader.world.owners[FIRST]
        raise DataPlaneRefused("not loaded")

    monkeypatch.setattr(leader.dataplane, "topics", refuse)
    assert (await http.request("GET", url)).status >= 500
    keeps = False
    reply = await http.request("GET", url)
    assert (reply.status, reply.json()) == (200, [])


async def test_names_of_the_first_version_are_refused_by_name(
    http: HttpClient, leader: Broker
) -> None:
    for path in ("topic/persistent/t/c/ns/x", "destination/persistent/t/c/ns/x"):
        reply = await http.request("GET", f"{leader.url}/lookup/v2/{path}")
        assert reply.status == 412, path
        assert "V1 topics" in reply.json()["reason"]
