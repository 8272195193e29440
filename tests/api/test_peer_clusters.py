"""Namespaces of another cluster, over HTTP: sent to it where it is a peer, else refused."""

import pytest

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, NAMESPACE, RING, Broker

PEER = BrokerUrls("west", web_url="http://west:8080", web_url_tls="https://west:8443")
NS = f"/admin/v2/namespaces/{NAMESPACE}"
BUNDLE = f"{NS}/{BUNDLES[1].range}"
CHANGES = [
    f"{NS}/unload",
    f"{BUNDLE}/unload",
    f"{BUNDLE}/unload?destinationBroker=b:1",
    f"{BUNDLE}/split?unload=false",
    f"{BUNDLE}/split?unload=true",
    f"{NS}/LARGEST/split",
    f"{BUNDLE}/merge",
]
TOPIC = f"/lookup/v2/topic/persistent/{NAMESPACE}/x"


async def test_clients_are_sent_to_a_peer(http: HttpClient, leader: Broker) -> None:
    leader.lookup.peers[NAMESPACE] = PEER
    reply = await http.request("GET", f"{leader.url}{TOPIC}?authoritative=false")
    assert reply.status == 307
    assert reply.headers["Location"] == f"http://west:8080{TOPIC}?authoritative=false"


async def test_clients_of_no_peer_are_refused(http: HttpClient, leader: Broker) -> None:
    leader.lookup.foreign.add(NAMESPACE)
    reply = await http.request("GET", leader.url + TOPIC)
    assert (reply.status, reply.json()["error"]) == (412, "ForeignNamespace")


@pytest.mark.parametrize("path", CHANGES)
async def test_a_request_that_changes_bundles_is_redirected_to_the_peer_cluster(
    http: HttpClient, leader: Broker, path: str
) -> None:
    leader.lookup.peers[NAMESPACE] = PEER
    reply = await http.request("PUT", leader.url + path)
    assert reply.status == 307
    assert reply.headers["Location"] == f"http://west:8080{path.replace(':', '%3A')}"
    assert leader.world.rings == {NAMESPACE: RING}
    assert leader.world.owners == {}


@pytest.mark.parametrize("path", CHANGES)
async def test_a_request_that_changes_bundles_of_a_foreign_namespace_without_a_peer_is_refused(
    http: HttpClient, leader: Broker, path: str
) -> None:
    leader.lookup.foreign.add(NAMESPACE)
    reply = await http.request("PUT", leader.url + path)
    assert (reply.status, reply.json()["error"]) == (412, "ForeignNamespace")
    assert leader.world.rings == {NAMESPACE: RING}
    assert leader.world.owners == {}


@pytest.mark.parametrize("path", [f"{NS}/unload", f"{BUNDLE}/unload"])
async def test_a_bundle_of_a_peer_that_is_still_owned_here_is_unloaded_here(
    http: HttpClient, leader: Broker, path: str
) -> None:
    leader.world.assign(BUNDLES[1], leader.broker_id)
    leader.lookup.peers[NAMESPACE] = PEER
    assert (await http.request("PUT", leader.url + path)).status == 204
    assert leader.world.owners == {}
