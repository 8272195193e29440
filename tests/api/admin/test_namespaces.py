"""Namespaces over HTTP."""

import json
from typing import Any

import pytest

from broker_ctl.api.admin.namespaces import MAX_BUNDLES
from broker_ctl.core.model.names import Namespace
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, Broker
from tests.support.clusters.tenants import make_tenant

NAMESPACES = "/admin/v2/namespaces"
QUARTERS = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


async def test_a_namespace_is_created_read_listed_and_deleted(
    http: HttpClient, leader: Broker
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    assert (await http.request("PUT", url)).status == 204
    assert (await http.request("GET", url)).json() == {
        "bundles": {"boundaries": QUARTERS, "numBundles": 4},
        "replication_clusters": [CLUSTER],
    }
    listed = await http.request("GET", f"{leader.url}{NAMESPACES}/t")
    assert listed.json() == ["t/new", "t/ns"]
    assert (await http.request("PUT", url)).status == 409
    assert (await http.request("DELETE", url)).status == 204
    assert (await http.request("DELETE", url)).status == 404
    assert (await http.request("GET", url)).status == 404
    assert (await http.request("GET", f"{url}/bundles")).status == 404


async def test_an_unknown_tenant_has_no_namespaces(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("GET", f"{leader.url}{NAMESPACES}/nobody")
    assert (reply.status, reply.json()["error"]) == (404, "TenantMissing")
    await make_tenant(http, leader.url, "nobody")
    reply = await http.request("GET", f"{leader.url}{NAMESPACES}/nobody")
    assert (reply.status, reply.json()) == (200, [])


async def test_no_namespace_exists_without_its_tenant(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{NAMESPACES}/nobody/ns"
    reply = await http.request("PUT", url)
    assert (reply.status, reply.json()["error"]) == (404, "TenantMissing")
    assert reply.json()["reason"].startswith("Tenant does not exist")
    await make_tenant(http, leader.url, "nobody")
    assert (await http.request("PUT", url)).status == 204


async def test_a_namespace_lives_where_its_tenant_may(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    reply = await http.request("PUT", url, json={"replication_clusters": ["elsewhere"]})
    assert (reply.status, reply.json()["error"]) == (403, "ClusterNotAllowed")
    assert reply.json()["reason"].startswith("Cluster [elsewhere] is not in the list of allowed")
    assert Namespace("t", "new") not in leader.world.rings
    assert (await http.request("PUT", url, json={"replication_clusters": []})).status == 204
    assert (await http.request("GET", url)).json()["replication_clusters"] == [CLUSTER]


async def test_policies_are_kept_for_other_readers(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    policies = {
        "replication_clusters": [CLUSTER],
        "retention_policies": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100},
        "message_ttl_in_seconds": 3600,
        "of_a_newer_release": [1, {"a": None}],
    }
    body = {**policies, "bundles": {"numBundles": 1}, "max_topics_per_namespace": None}
    assert (await http.request("PUT", url, json=body)).status == 204
    whole = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
    assert (await http.request("GET", url)).json() == {**policies, "bundles": whole}
    node = await leader.metadata.store.get(paths.policies(Namespace("t", "new")))
    assert node is not None
    assert json.loads(node.data) == {**policies, "bundles": whole}


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ("retention_policies", 10),
        ("message_ttl_in_seconds", "an hour"),
        ("replication_clusters", CLUSTER),
        ("replication_clusters", [1]),
        ("deduplicationEnabled", 1),
        ("resource_group_name", {}),
        ("deleted", True),
    ],
)
async def test_a_policy_that_no_broker_could_read_is_refused(
    http: HttpClient, leader: Broker, policy: str, value: Any
) -> None:
    reply = await http.request("PUT", f"{leader.url}{NAMESPACES}/t/new", json={policy: value})
    assert reply.status == 400
    assert policy in reply.json()["reason"]
    assert Namespace("t", "new") not in leader.world.rings


async def test_the_clusters_of_a_namespace_are_read_and_set(
    http: HttpClient, leader: Broker
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/ns/replication"
    west = f"{leader.url}/admin/v2/clusters/west"
    assert (await http.request("GET", url)).json() == [CLUSTER]
    refused = await http.request("POST", url, json=["west"])
    assert (refused.status, refused.json()["reason"]) == (403, "Invalid cluster id: west")
    await http.request("PUT", west, json={"serviceUrl": "http://west:8080"})
    refused = await http.request("POST", url, json=[CLUSTER, "west"])
    assert (refused.status, refused.json()["error"]) == (403, "ClusterNotAllowed")
    tenant = f"{leader.url}/admin/v2/tenants/t"
    both = {"allowedClusters": [CLUSTER, "west"]}
    assert (await http.request("POST", tenant, json=both)).status == 204
    assert (await http.request("POST", url, json=["west", CLUSTER])).status == 204
    assert (await http.request("GET", url)).json() == [CLUSTER, "west"]
    shown = (await http.request("GET", url.removesuffix("/replication"))).json()
    assert shown["replication_clusters"] == [CLUSTER, "west"]
    assert shown["bundles"]["boundaries"] == QUARTERS
    assert (await http.request("POST", url, json=[])).status == 412
    peers = await http.request("POST", f"{west}/peers", json=[CLUSTER])
    assert peers.status == 204
    refused = await http.request("POST", url, json=["west", CLUSTER])
    assert (refused.status, refused.json()["error"]) == (409, "PolicyConflict")
    missing = f"{leader.url}{NAMESPACES}/t/no/replication"
    assert (await http.request("GET", missing)).status == 404
    assert (await http.request("POST", missing, json=[CLUSTER])).status == 404


async def test_permissions_are_returned_as_they_are_stored(
    http: HttpClient, leader: Broker
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    assert (await http.request("GET", f"{leader.url}{NAMESPACES}/t/ns/permissions")).json() == {}
    granted = {"seller": ["produce", "consume"]}
    body = {"auth_policies": {"namespace_auth": granted, "destination_auth": {}}}
    assert (await http.request("PUT", url, json=body)).status == 204
    assert (await http.request("GET", f"{url}/permissions")).json() == granted
    assert (await http.request("GET", f"{leader.url}{NAMESPACES}/t/no/permissions")).status == 404


async def test_a_namespace_whose_bundles_are_owned_stays(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    reply = await http.request("DELETE", f"{leader.url}{NAMESPACES}/t/ns")
    assert (reply.status, reply.json()["error"]) == (409, "OwnershipError")


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [
        ({"numBundles": 2}, ["0x00000000", "0x80000000", "0xffffffff"]),
        ({"numBundles": 9, "boundaries": ["0x00000000", "0x10", "0xFFFFFFFF"]}, None),
        ({}, QUARTERS),
        (None, QUARTERS),
        ({"numBundles": 0}, QUARTERS),
        ({"numBundles": 0, "boundaries": []}, QUARTERS),
        ({"numBundles": "2"}, ["0x00000000", "0x80000000", "0xffffffff"]),
        ({"numBundles": 2.0}, ["0x00000000", "0x80000000", "0xffffffff"]),
    ],
)
async def test_the_ring_is_cut_as_the_body_says(
    http: HttpClient, leader: Broker, bundles: Any, expected: list[str] | None
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    assert (await http.request("PUT", url, json={"bundles": bundles})).status == 204
    ring = (await http.request("GET", f"{url}/bundles")).json()
    boundaries = expected or ["0x00000000", "0x00000010", "0xffffffff"]
    assert ring == {"boundaries": boundaries, "numBundles": len(boundaries) - 1}


@pytest.mark.parametrize(
    ("bundles", "status"),
    [
        ({"numBundles": MAX_BUNDLES + 1}, 412),
        ({"numBundles": -1}, 412),
        ({"numBundles": True}, 400),
        ({"numBundles": "four"}, 400),
        ({"numBundles": 2.5}, 400),
        ({"numBundles": "9" * 40}, 400),
        ({"boundaries": "0x0"}, 400),
        ({"boundaries": ["0x00000000"]}, 412),
        ({"boundaries": ["0x00000000", "0x80000000"]}, 412),
        ({"boundaries": ["0x00000000", "0x1ffffffff"]}, 412),
        ({"boundaries": ["0x00000000", 4_294_967_295]}, 412),
        ({"boundaries": ["0x00000000", "-0x1"]}, 412),
        ({"boundaries": ["0x00000000", 10, "0xffffffff"]}, 412),
        ({"boundaries": [*(hex(n) for n in range(MAX_BUNDLES + 1)), "0xffffffff"]}, 412),
        ([4], 400),
        (4, 400),
    ],
)
async def test_a_ring_that_is_none_is_refused(
    http: HttpClient, leader: Broker, bundles: Any, status: int
) -> None:
    url = f"{leader.url}{NAMESPACES}/t/new"
    reply = await http.request("PUT", url, json={"bundles": bundles})
    assert reply.status == status
    assert reply.json()["reason"]
    assert Namespace("t", "new") not in leader.world.rings


@pytest.mark.parametrize("namespace", ["t/a%20b", "t/..%2Fx", "%00/x"])
async def test_a_bad_name_is_refused(http: HttpClient, leader: Broker, namespace: str) -> None:
    reply = await http.request("PUT", f"{leader.url}{NAMESPACES}/{namespace}")
    assert (reply.status, reply.json()["error"]) == (412, "InvalidName")


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"null null"])
async def test_a_body_that_is_not_an_object_is_refused(
    http: HttpClient, leader: Broker, body: bytes
) -> None:
    reply = await http.request("PUT", f"{leader.url}{NAMESPACES}/t/new", content=body)
    assert reply.status == 400
    assert reply.json()["reason"]
