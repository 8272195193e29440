"""Requests as the stock admin clients send them: Java's, pulsar-admin and Go's."""

import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_ctl.api.http.dependencies import ApiRules, Readiness
from broker_ctl.core.model.names import Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import CLUSTER, NAMESPACE, Broker, serving_brokers
from tests.support.http.web_server import free_port

NS = f"/admin/v2/namespaces/{NAMESPACE}"
METADATA = "application/vnd.partitioned-topic-metadata+json"
PARTITIONED = f"/admin/v2/persistent/{NAMESPACE}/p/partitions"
JSON = "application/json"
# What belongs to the broker process: method, path, body.
ELSEWHERE: list[tuple[str, str, Any]] = [
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/x/stats", None),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/x/internalStats", None),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/x/partitioned-stats", None),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/x/subscriptions", None),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/x/subscription/s", {}),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/x/properties", None),
    ("GET", f"{NS}/retention", None),
    ("POST", f"{NS}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}),
    ("POST", f"{NS}/messageTTL", 3600),
    ("GET", f"{NS}/backlogQuotaMap", None),
    ("POST", f"{NS}/clearBacklog", None),
    ("POST", f"{NS}/permissions/role", ["produce"]),
    ("GET", f"/admin/v2/schemas/{NAMESPACE}/x/schema", None),
    ("POST", f"/admin/v2/schemas/{NAMESPACE}/x/schema", {"type": "STRING"}),
    ("GET", "/admin/v2/broker-stats/mbeans", None),
    ("GET", "/admin/v2/broker-stats/allocator-stats/default", None),
    ("GET", "/admin/v2/broker-stats/bookieops", None),
    ("GET", "/admin/v2/brokers/backlog-quota-check", None),
    ("GET", "/admin/v2/bookies/all", None),
    ("GET", "/admin/v3/functions/public/default", None),
]


async def typed(
    method: str, url: str, body: bytes, content_type: str
) -> tuple[int, dict[str, Any]]:
    """Status and answer of a request with a body of some type."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers={"Content-Type": content_type}) as reply,
    ):
        data = await reply.read()
        return reply.status, json.loads(data) if data else {}


async def status_line(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return reply.status, reply.reason or ""


@pytest.mark.parametrize(("method", "path", "body"), ELSEWHERE)
async def test_a_request_that_belongs_to_the_broker_process_is_refused_with_501(
    http: HttpClient, leader: Broker, method: str, path: str, body: Any
) -> None:
    reply = await http.request(method, leader.url + path, json=body)
    assert (reply.status, reply.json()["error"]) == (501, "NotServedHere")
    assert re.search(r"[^s]s? belongs? to the broker process", reply.json()["reason"])
    assert "lookup" in reply.json()["reason"]


async def test_an_unknown_path_is_not_found(http: HttpClient, leader: Broker) -> None:
    for path in ("/nope", "/adminx", "/lookup/v2/nope"):
        assert (await http.request("GET", leader.url + path)).status == 404


async def test_a_partitioned_topic_is_made_with_properties(
    http: HttpClient, leader: Broker
) -> None:
    body = json.dumps({"partitions": 3, "properties": {"a": "b"}}).encode()
    assert await typed("PUT", leader.url + PARTITIONED, body, METADATA) == (204, {})
    shown = (await http.request("GET", leader.url + PARTITIONED)).json()
    assert shown == {"partitions": 3, "deleted": False, "properties": {"a": "b"}}
    node = await leader.metadata.store.get(
        paths.partitioned_topic(Topic("persistent", NAMESPACE, "p"))
    )
    assert node is not None
    assert json.loads(node.data) == {"partitions": 3, "properties": {"a": "b"}}
    assert (await http.request("POST", leader.url + PARTITIONED, json=5)).status == 204
    shown = (await http.request("GET", leader.url + PARTITIONED)).json()
    assert shown == {"partitions": 5, "deleted": False, "properties": {"a": "b"}}


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        (METADATA, b'{"partitions":2}', 204),
        (METADATA, b'{"partitions":2,"properties":null}', 204),
        (METADATA, b'{"partitions":2,"properties":{}}', 204),
        (METADATA, b'{"partitions":"2"}', 204),
        ("application/json", b"2.0", 204),
        ("application/json", b'"2"', 204),
        (METADATA, b'{"properties":{"a":"b"}}', 406),
        (METADATA, b'{"partitions":2,"properties":{"a":1}}', 400),
        (METADATA, b'{"partitions":2,"properties":["a"]}', 400),
        (METADATA, b"2", 400),
        ("application/json", b'{"partitions":2}', 400),
        ("application/json", b"2.5", 400),
        ("text/plain", b"2", 400),
    ],
)
async def test_the_number_of_partitions_is_read_from_each_form_that_clients_send(
    http: HttpClient, leader: Broker, content_type: str, body: bytes, status: int
) -> None:
    found, reply = await typed("PUT", leader.url + PARTITIONED, body, content_type)
    assert (found, bool(reply.get("reason"))) == (status, status != 204)
    shown = (await http.request("GET", leader.url + PARTITIONED)).json()
    assert shown["partitions"] == (2 if status == 204 else 0)


async def test_pulsars_content_type_of_partition_metadata_is_refused_elsewhere(
    leader: Broker,
) -> None:
    status, reply = await typed("PUT", f"{leader.url}/admin/v2/namespaces/t/new", b"{}", METADATA)
    assert (status, reply["reason"]) == (400, "Content-Type must be application/json")


async def test_the_release_and_the_stores_are_reported(http: HttpClient, leader: Broker) -> None:
    brokers = f"{leader.url}/admin/v2/brokers"
    version = await http.request("GET", f"{brokers}/version")
    assert version.status == 200
    assert version.body.decode()[0].isdigit()
    stores = (await http.request("GET", f"{brokers}/internal-configuration")).json()
    assert set(stores) == {
        "zookeeperServers",
        "configurationStoreServers",
        "metadataStoreUrl",
        "configurationMetadataStoreUrl",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/livez",
        "/admin/v2/brokers",
        f"/admin/v2/brokers/{CLUSTER}",
        "/admin/v2/namespaces/t",
        "/admin/v2/tenants",
        f"/lookup/v2/topic/persistent/{NAMESPACE}/x",
        f"/lookup/v2/topic/persistent/{NAMESPACE}/x?authoritative=true",
    ],
)
async def test_a_slash_at_the_end_changes_nothing(
    http: HttpClient, leader: Broker, path: str
) -> None:
    bare, _, query = path.partition("?")
    slashed = f"{bare}/" + (f"?{query}" if query else "")
    assert (await http.request("GET", leader.url + path)).status == 200
    assert (await http.request("GET", leader.url + slashed)).status == 200
    assert (await http.request("GET", f"{leader.url}/")).status == 404


async def test_a_redirect_of_a_path_with_a_slash_at_the_end_keeps_its_query(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.leader_id = leader.broker_id
    path = f"/lookup/v2/topic/persistent/{NAMESPACE}/x"
    reply = await http.request("GET", f"{follower.url}{path}/?listenerName=external")
    assert reply.status == 307
    assert reply.headers["Location"].startswith(f"{leader.url}{path}?listenerName=external")


async def test_the_status_line_says_why(leader: Broker) -> None:
    topics = f"{leader.url}/lookup/v2/topic/persistent/t"
    assert await status_line(f"{topics}/no/x") == (404, "namespace t/no does not exist")
    for odd in ("no%0d%0aX: y", "no%C3%A4", "n" * 4_000):
        status, phrase = await status_line(f"{topics}/{odd}/x")
        assert status in {404, 412}
        assert 0 < len(phrase) <= 256
        assert all(" " <= letter <= "~" for letter in phrase)


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        (f"/admin/v2/namespaces/{CLUSTER}/antiAffinity", "tenant"),
        # Java's client before release 4.2.
        (f"/admin/namespaces/{CLUSTER}/antiAffinity", "property"),
    ],
)
@pytest.mark.parametrize("group", ["grp-1", "gruppe-ä-日本"])
async def test_namespaces_of_a_group_are_found(
    http: HttpClient, leader: Broker, path: str, parameter: str, group: str
) -> None:
    assert await typed("POST", f"{leader.url}{NS}/antiAffinity", group.encode(), JSON) == (204, {})
    assert (await http.request("GET", f"{leader.url}{NS}/antiAffinity")).body.decode() == group
    reply = await http.request("GET", f"{leader.url}{path}/{group}?{parameter}=t")
    assert (reply.status, reply.json()) == (200, [str(NAMESPACE)])


@pytest.mark.parametrize("group", [b"x" * 129, b"a\x00b", b"a\nb", b" "])
async def test_an_invalid_name_of_a_group_is_refused(leader: Broker, group: bytes) -> None:
    status, reply = await typed("POST", f"{leader.url}{NS}/antiAffinity", group, JSON)
    assert (status, reply["error"]) == (412, "InvalidName")


async def test_a_namespace_is_not_deleted_by_force(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("DELETE", f"{leader.url}{NS}?force=true")
    assert (reply.status, reply.json()["error"]) == (405, "NotAllowed")
    assert (await http.request("DELETE", f"{leader.url}{NS}?force=false")).status == 204


async def test_a_load_balancer_reads_the_status_file(http: HttpClient, tmp_path: Path) -> None:
    file = tmp_path / "status"
    rules = ApiRules(CLUSTER, status_file=str(file))
    async with serving_brokers([free_port()], rules) as [broker]:
        url = f"{broker.url}/status.html"
        assert (await http.request("GET", url)).status == 404
        file.touch()
        reply = await http.request("GET", url)
        assert (reply.status, reply.body) == (200, b"OK")
        broker.readiness = Readiness(is_ready=False, reason="no session")
        assert (await http.request("GET", url)).json()["reason"] == "not ready: no session"


async def test_without_a_status_file_no_status_is_served(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("GET", f"{leader.url}/status.html")
    assert (reply.status, reply.json()["reason"]) == (404, "statusFilePath is not set")
