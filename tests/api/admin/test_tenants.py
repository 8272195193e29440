"""Tenants and clusters over HTTP, by the requests that Pulsar's clients send."""

from typing import Any

import pytest

from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import CLUSTER, Broker

TENANTS = "/admin/v2/tenants"
CLUSTERS = "/admin/v2/clusters"
WEST = {"serviceUrl": "http://west:8080", "brokerServiceUrl": "pulsar://west:6650"}


async def test_tenants_come_and_go(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{TENANTS}/shop"
    # As PulsarAdmin sends it: both fields, sets in any order.
    info = {"adminRoles": ["seller", "buyer"], "allowedClusters": [CLUSTER]}
    shown = {"adminRoles": ["buyer", "seller"], "allowedClusters": [CLUSTER]}
    assert (await http.request("PUT", url, json=info)).status == 204
    assert (await http.request("GET", url)).json() == shown
    assert (await http.request("GET", f"{leader.url}{TENANTS}")).json() == ["shop", "t"]
    assert (await http.request("PUT", url, json=info)).status == 409
    changed = {"adminRoles": [], "allowedClusters": [CLUSTER], "of_a_newer_release": 1}
    assert (await http.request("POST", url, json=changed)).status == 204
    assert (await http.request("GET", url)).json() == changed
    assert (await http.request("DELETE", url)).status == 204
    for method in ("GET", "DELETE"):
        reply = await http.request(method, url)
        assert (reply.status, reply.json()["error"]) == (404, "TenantMissing")
    assert (await http.request("POST", url, json=info)).status == 404
    assert (await http.request("GET", f"{leader.url}{TENANTS}")).json() == ["t"]


async def test_an_empty_admin_role_names_nobody(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{TENANTS}/shop"
    # As pulsarctl sends it without --admin-roles.
    info = {"adminRoles": [""], "allowedClusters": [CLUSTER]}
    assert (await http.request("PUT", url, json=info)).status == 204
    assert (await http.request("GET", url)).json() == info | {"adminRoles": []}


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("shop", None, 412),
        ("shop", {}, 412),
        ("shop", {"allowedClusters": []}, 412),
        ("shop", {"allowedClusters": [" "]}, 412),
        ("shop", {"allowedClusters": ["nowhere"]}, 412),
        ("shop", {"allowedClusters": [CLUSTER], "adminRoles": [" seller"]}, 412),
        ("shop", {"allowedClusters": CLUSTER}, 400),
        ("shop", {"allowedClusters": [1]}, 400),
        ("shop", [CLUSTER], 400),
        ("a%20b", {"allowedClusters": [CLUSTER]}, 412),
        ("a%2Fb", {"allowedClusters": [CLUSTER]}, 412),
    ],
)
async def test_a_tenant_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, name: str, body: Any, status: int
) -> None:
    reply = await http.request("PUT", f"{leader.url}{TENANTS}/{name}", json=body)
    assert reply.status == status
    assert reply.json()["reason"]
    assert (await http.request("GET", f"{leader.url}{TENANTS}")).json() == ["t"]


async def test_a_tenant_with_namespaces_stays(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{TENANTS}/t"
    reply = await http.request("DELETE", url)
    assert (reply.status, reply.json()["error"]) == (409, "PolicyConflict")
    assert reply.json()["reason"].startswith("The tenant still has active namespaces")
    assert (await http.request("DELETE", f"{url}?force=true")).status == 405
    await http.request("DELETE", f"{leader.url}/admin/v2/namespaces/t/ns")
    assert (await http.request("DELETE", url)).status == 204


async def test_a_cluster_is_not_taken_from_a_tenant_whose_namespace_lives_there(
    http: HttpClient, leader: Broker
) -> None:
    await http.request("PUT", f"{leader.url}{CLUSTERS}/west", json=WEST)
    url = f"{leader.url}{TENANTS}/t"
    reply = await http.request("POST", url, json={"allowedClusters": ["west"]})
    assert (reply.status, reply.json()["error"]) == (412, "ClusterInUse")
    assert "t/ns lives in c1" in reply.json()["reason"]
    assert (await http.request("GET", url)).json()["allowedClusters"] == [CLUSTER]


async def test_clusters_come_and_go(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{CLUSTERS}/west"
    assert (await http.request("GET", url)).status == 404
    assert (await http.request("GET", f"{url}/peers")).status == 404
    assert (await http.request("POST", url, json=WEST)).status == 404
    # As PulsarAdmin sends it: with nulls.
    created = await http.request("PUT", url, json={**WEST, "serviceUrlTls": None})
    assert (created.status, created.body) == (200, b"")
    assert (await http.request("GET", url)).json() == WEST
    assert (await http.request("PUT", url, json=WEST)).status == 409
    assert (await http.request("GET", f"{leader.url}{CLUSTERS}")).json() == [CLUSTER, "west"]
    changed = {"serviceUrl": "http://west-2:8080", "of_a_newer_release": [1]}
    assert (await http.request("POST", url, json=changed)).status == 200
    assert (await http.request("GET", url)).json() == changed
    assert (await http.request("DELETE", url)).status == 204
    assert (await http.request("DELETE", url)).status == 404
    assert (await http.request("GET", f"{leader.url}{CLUSTERS}")).json() == [CLUSTER]


async def test_the_own_cluster_is_there_before_anybody_writes_it_down(
    http: HttpClient, leader: Broker
) -> None:
    url = f"{leader.url}{CLUSTERS}/{CLUSTER}"
    assert (await http.request("GET", f"{leader.url}{CLUSTERS}")).json() == [CLUSTER]
    own = {"serviceUrl": leader.url, "brokerServiceUrl": leader.urls.native_url}
    assert (await http.request("GET", url)).json() == own
    # Its node is made as the parent of a failure domain, and says nothing yet.
    domain = {"brokers": [leader.broker_id]}
    assert (await http.request("POST", f"{url}/failureDomains/rack", json=domain)).status == 204
    assert (await http.request("GET", url)).json() == own
    assert (await http.request("POST", f"{url}/peers", json=[])).status == 204
    assert (await http.request("GET", url)).json() == {**own, "peerClusterNames": []}
    assert (await http.request("POST", url, json=WEST)).status == 200
    assert (await http.request("GET", url)).json() == WEST
    assert (await http.request("GET", f"{url}/failureDomains/rack")).json() == domain


async def test_a_cluster_has_peers_that_are_known(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{CLUSTERS}/{CLUSTER}/peers"
    assert (await http.request("GET", url)).json() is None
    for peers in (["west"], [CLUSTER], [CLUSTER.upper()]):
        assert (await http.request("POST", url, json=peers)).status == 412
    await http.request("PUT", f"{leader.url}{CLUSTERS}/west", json=WEST)
    assert (await http.request("POST", url, json=["west"])).status == 204
    assert (await http.request("GET", url)).json() == ["west"]
    assert (await http.request("POST", url, json=[])).status == 204
    assert (await http.request("GET", url)).json() == []
    assert (await http.request("POST", url, json={"west": 1})).status == 400


async def test_a_cluster_in_use_stays(http: HttpClient, leader: Broker) -> None:
    west, tenant = f"{leader.url}{CLUSTERS}/west", f"{leader.url}{TENANTS}/t"
    await http.request("PUT", west, json=WEST)
    await http.request("POST", tenant, json={"allowedClusters": [CLUSTER, "west"]})
    for name in ("west", CLUSTER):
        reply = await http.request("DELETE", f"{leader.url}{CLUSTERS}/{name}")
        assert (reply.status, reply.json()["error"]) == (412, "ClusterInUse")
        assert reply.json()["reason"].startswith("Cluster not empty")
    await http.request("POST", tenant, json={"allowedClusters": [CLUSTER]})
    store = leader.metadata.store
    policy = b'{"p":{"namespaces":["t/.*"],"primary":["b.*"],"auto_failover_policy":{}}}'
    isolation = paths.isolation_policies("west")
    await store.create(isolation, policy)
    assert (await http.request("DELETE", west)).status == 412
    await store.set(isolation, b"{}")
    rack = paths.failure_domain("west", "rack")
    await store.create(rack, b'{"brokers":[]}', make_parents=True)
    assert (await http.request("DELETE", west)).status == 204
    assert await store.exists(paths.cluster("west")) is None


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("west", None, 400),
        ("west", {}, 400),
        ("west", {"serviceUrl": 1}, 400),
        ("west", {"peerClusterNames": "east"}, 400),
        ("a%20b", WEST, 412),
    ],
)
async def test_a_cluster_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, name: str, body: Any, status: int
) -> None:
    reply = await http.request("PUT", f"{leader.url}{CLUSTERS}/{name}", json=body)
    assert reply.status == status
    assert reply.json()["reason"]
    assert (await http.request("GET", f"{leader.url}{CLUSTERS}")).json() == [CLUSTER]


async def test_nothing_is_changed_while_policies_are_read_only(
    http: HttpClient, leader: Broker
) -> None:
    await leader.metadata.store.create(paths.POLICIES_READ_ONLY, make_parents=True)
    info = {"allowedClusters": [CLUSTER]}
    requests: tuple[tuple[str, str, Any], ...] = (
        ("PUT", f"{TENANTS}/shop", info),
        ("POST", f"{TENANTS}/t", info),
        ("DELETE", f"{TENANTS}/t", None),
        ("PUT", f"{CLUSTERS}/west", WEST),
        ("POST", f"{CLUSTERS}/{CLUSTER}", WEST),
        ("POST", f"{CLUSTERS}/{CLUSTER}/peers", []),
        ("DELETE", f"{CLUSTERS}/{CLUSTER}", None),
        ("POST", "/admin/v2/namespaces/t/ns/replication", [CLUSTER]),
    )
    for method, path, body in requests:
        reply = await http.request(method, leader.url + path, json=body)
        assert (path, reply.status, reply.json()["error"]) == (path, 403, "PoliciesReadOnly")
