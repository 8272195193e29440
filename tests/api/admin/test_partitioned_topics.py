"""Partitioned topics over HTTP, as pulsar-admin and the clients ask for them."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.broker.namespaces.partitioned_topics import MAX_PARTITIONS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import CLUSTER, NAMESPACE, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

TOPIC = Topic("persistent", NAMESPACE, "a?b %2F+ä")


def url_of(broker: Broker, topic: Topic = TOPIC) -> str:
    path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
    return f"{broker.url}/admin/v2/{path}/partitions"


async def partitions_at(http: HttpClient, broker: Broker, topic: Topic = TOPIC) -> Any:
    reply = await http.request("GET", f"{url_of(broker, topic)}?checkAllowAutoCreation=true")
    assert reply.status == 200
    return reply.json()["partitions"]


async def create(
    http: HttpClient, broker: Broker, topic: Topic = TOPIC, partitions: int = 4
) -> None:
    assert (await http.request("PUT", url_of(broker, topic), json=partitions)).status == 204


async def test_a_partitioned_topic_is_created_read_extended_and_deleted(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await create(http, leader)
    for broker in (leader, follower):
        shown = await http.request("GET", url_of(broker))
        assert (shown.status, shown.json()) == (200, {"partitions": 4, "deleted": False})
    node = await leader.metadata.store.get(paths.partitioned_topic(TOPIC))
    assert node is not None
    assert node.data == b'{"partitions":4}'
    query = "?updateLocalTopicOnly=false&authoritative=false&force=false"
    assert (await http.request("POST", url_of(follower) + query, json=6)).status == 204
    assert await partitions_at(http, leader) == 6
    assert (await http.request("DELETE", f"{url_of(leader)}?force=false")).status == 204
    assert await partitions_at(http, follower) == 0


async def test_a_topic_that_nobody_created_has_no_partitions(
    http: HttpClient, leader: Broker
) -> None:
    for check in ("", "?checkAllowAutoCreation=true", "?checkAllowAutoCreation=false"):
        reply = await http.request("GET", url_of(leader) + check)
        assert (reply.status, reply.json()) == (200, {"partitions": 0, "deleted": False})
    assert await leader.metadata.store.get(paths.partitioned_topic(TOPIC)) is None


async def test_properties_that_pulsar_keeps_are_reported(http: HttpClient, leader: Broker) -> None:
    kept = {"partitions": 2, "deleted": True, "properties": {"team": "a"}}
    data = json.dumps({**kept, "unknown": 1}).encode()
    await leader.metadata.store.create(paths.partitioned_topic(TOPIC), data, make_parents=True)
    assert (await http.request("GET", url_of(leader))).json() == kept


async def test_topics_are_listed_by_domain(http: HttpClient, leader: Broker) -> None:
    names = ["persistent://t/ns/b", "persistent://t/ns/a c", "non-persistent://t/ns/n"]
    for name in names:
        await create(http, leader, Topic.parse(name))
    for domain, expected in (("persistent", names[1::-1]), ("non-persistent", names[2:])):
        reply = await http.request("GET", f"{leader.url}/admin/v2/{domain}/t/ns/partitioned")
        assert (reply.status, reply.json()) == (200, expected)


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("PUT", "persistent/t/ns/there/partitions", 4, (409, "PolicyConflict")),
        ("PUT", "persistent/t/ns/x/partitions", 0, (406, "InvalidPolicy")),
        ("PUT", "persistent/t/ns/x/partitions", None, (406, "InvalidPolicy")),
        ("PUT", "persistent/t/ns/x/partitions", -1, (406, "InvalidPolicy")),
        ("PUT", "persistent/t/ns/x/partitions", MAX_PARTITIONS + 1, (406, "InvalidPolicy")),
        ("PUT", "persistent/t/ns/x-partition-0/partitions", 4, (412, "InvalidName")),
        ("PUT", "persistent/t/%24/x/partitions", 4, (412, "InvalidName")),
        ("PUT", "persistent/t/ns/%00/partitions", 4, (412, "InvalidName")),
        ("PUT", "persistent/t/unknown/x/partitions", 4, (404, "NamespaceMissing")),
        ("PUT", "transient/t/ns/x/partitions", 4, (501, "NotServedHere")),
        ("PUT", "persistent/t/c/ns/x/partitions", 4, (501, "NotServedHere")),
        ("POST", "persistent/t/ns/x/partitions", 4, (409, "TopicMissing")),
        ("POST", "persistent/t/ns/there/partitions", 1, (422, "InvalidPolicy")),
        ("POST", "persistent/t/ns/there/partitions", None, (422, "InvalidPolicy")),
        ("POST", "persistent/t/ns/there/partitions", MAX_PARTITIONS + 1, (422, "InvalidPolicy")),
        ("POST", "persistent/t/unknown/x/partitions", 4, (404, "NamespaceMissing")),
        ("DELETE", "persistent/t/ns/x/partitions", None, (404, "TopicMissing")),
        ("DELETE", "persistent/t/unknown/x/partitions", None, (404, "NamespaceMissing")),
        ("GET", "persistent/t/unknown/x/partitions", None, (404, "NamespaceMissing")),
        ("GET", "persistent/t/unknown/partitioned", None, (404, "NamespaceMissing")),
        ("GET", "persistent/t/%24/partitioned", None, (412, "InvalidName")),
    ],
)
async def test_an_impossible_request_is_refused_with_pulsars_status(
    http: HttpClient,
    leader: Broker,
    *,
    method: str,
    path: str,
    body: Any,
    refusal: tuple[int, str],
) -> None:
    there = Topic("persistent", NAMESPACE, "there")
    await create(http, leader, there, partitions=2)
    reply = await http.request(method, f"{leader.url}/admin/v2/{path}", json=body)
    assert (reply.status, reply.json()["error"]) == refusal
    assert reply.json()["reason"]
    assert await partitions_at(http, leader, there) == 2
    listed = await http.request("GET", f"{leader.url}/admin/v2/persistent/t/ns/partitioned")
    assert listed.json() == [str(there)]


@pytest.mark.parametrize(
    "body", [b'"four"', b"4.5", b"true", b"[4]", b'{"partitions":4}', b"4 4", b"\xff"]
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_a_body_that_is_not_a_whole_number_is_refused(
    http: HttpClient, leader: Broker, method: str, body: bytes
) -> None:
    await create(http, leader, partitions=2)
    topic = TOPIC if method == "POST" else Topic("persistent", NAMESPACE, "x")
    reply = await http.request(method, url_of(leader, topic), content=body)
    assert reply.status == 400
    assert reply.json()["reason"]
    assert await partitions_at(http, leader) == 2
    assert await partitions_at(http, leader, Topic("persistent", NAMESPACE, "x")) == 0


async def test_nothing_changes_while_policies_are_read_only(
    http: HttpClient, leader: Broker
) -> None:
    await create(http, leader)
    await leader.metadata.store.create(paths.POLICIES_READ_ONLY, make_parents=True)
    new = Topic("persistent", NAMESPACE, "new")
    for method, topic, body in (("PUT", new, 1), ("POST", TOPIC, 9), ("DELETE", TOPIC, None)):
        reply = await http.request(method, url_of(leader, topic), json=body)
        assert (reply.status, reply.json()["error"]) == (403, "PoliciesReadOnly")
    assert await partitions_at(http, leader) == 4


async def test_clients_may_read_and_super_users_may_write(http: HttpClient) -> None:
    admission = admitting(f"admin:{TOKEN}", ["admin"])
    rules = ApiRules(CLUSTER, **admission)
    async with serving_brokers([free_port()], rules, TOKEN) as (broker,):
        for method, body in (("PUT", 1), ("POST", 2), ("DELETE", None)):
            assert (await http.request(method, url_of(broker), json=body)).status == 401
        assert (await http.request("GET", url_of(broker))).status == 401
        async with HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as admin:
            assert await partitions_at(admin, broker) == 0
            await create(admin, broker)
            assert await partitions_at(admin, broker) == 4


async def test_a_namespace_without_partitioned_topics_has_an_empty_list(
    http: HttpClient, leader: Broker
) -> None:
    await leader.metadata.namespaces.create(Namespace("t", "bare"))
    reply = await http.request("GET", f"{leader.url}/admin/v2/persistent/t/bare/partitioned")
    assert (reply.status, reply.json()) == (200, [])
