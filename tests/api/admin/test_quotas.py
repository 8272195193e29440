"""Resource quotas, in Pulsar's shape and on Pulsar's nodes."""

import json
from typing import Any

import pytest

from broker_ctl.balancer.monitoring.bundle_data_store import read_default_quota, read_quotas
from broker_ctl.core.model.load import ResourceQuota
from broker_ctl.core.model.names import Bundle
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import BUNDLES, Broker

BUNDLE = BUNDLES[1]
# What Pulsar begins with (docs: pulsar-load-data).
INITIAL = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100_000.0,
    "bandwidthOut": 300_000.0,
    "memory": 80.0,
    "dynamic": True,
}
OWN = INITIAL | {"msgRateIn": 7.0, "dynamic": False}
OTHER = INITIAL | {"memory": 8.0}


def url_of(broker: Broker, bundle: Bundle | None = None) -> str:
    below = "" if bundle is None else f"/{bundle}"
    return f"{broker.url}/admin/v2/resource-quotas{below}"


async def test_a_bundle_without_a_quota_has_pulsars_default_quota(
    http: HttpClient, leader: Broker
) -> None:
    for url in (url_of(leader), url_of(leader, BUNDLE)):
        reply = await http.request("GET", url)
        assert (reply.status, reply.json()) == (200, INITIAL)


async def test_a_bundles_quota_comes_before_the_default_one(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    assert (await http.request("POST", url_of(leader), json=OTHER)).status == 204
    assert (await http.request("POST", url_of(leader, BUNDLE), json=OWN)).status == 204
    assert (await http.request("GET", url_of(follower, BUNDLE))).json() == OWN
    assert (await http.request("GET", url_of(follower, BUNDLES[0]))).json() == OTHER
    assert (await http.request("DELETE", url_of(leader, BUNDLE))).status == 204
    assert (await http.request("GET", url_of(follower, BUNDLE))).json() == OTHER
    assert (await http.request("DELETE", url_of(leader))).status == 204
    assert (await http.request("GET", url_of(follower, BUNDLE))).json() == INITIAL
    assert (await http.request("DELETE", url_of(leader, BUNDLE))).status == 204


async def test_the_leader_reads_what_was_set(http: HttpClient, leader: Broker) -> None:
    await http.request("POST", url_of(leader), json=OTHER)
    await http.request("POST", url_of(leader, BUNDLE), json=OWN)
    store = leader.metadata.store
    assert await read_default_quota(store) == ResourceQuota(memory_mib=8.0)
    own = ResourceQuota(msg_rate_in=7.0, is_dynamic=False)
    assert await read_quotas(store, BUNDLES) == {BUNDLE: own}


async def test_a_quota_of_pulsar_2_9_is_found_and_reset(http: HttpClient, leader: Broker) -> None:
    path, store = paths.old_resource_quota(BUNDLE), leader.metadata.store
    await store.create(path, json.dumps(OWN).encode(), make_parents=True)
    assert (await http.request("GET", url_of(leader, BUNDLE))).json() == OWN
    assert (await http.request("DELETE", url_of(leader, BUNDLE))).status == 204
    assert await store.get(path) is None


async def test_dynamic_is_true_where_it_is_left_out(http: HttpClient, leader: Broker) -> None:
    body = {name: value for name, value in OWN.items() if name != "dynamic"}
    assert (await http.request("POST", url_of(leader), json=body)).status == 204
    assert (await http.request("GET", url_of(leader))).json() == OWN | {"dynamic": True}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"memory": -1}, "memory must be"),
        ({"memory": None}, "memory must be"),
        ({"bandwidthIn": "9"}, "bandwidthIn must be"),
        ({"msgRateIn": True}, "msgRateIn must be"),
        ({"msgRateOut": 1e300}, "msgRateOut must be"),
        ({"dynamic": 1}, "dynamic is true or false"),
        ({"cpu": 1}, "'cpu' is not a field of a quota"),
    ],
)
async def test_an_invalid_quota_is_refused_with_the_field_that_is_wrong(
    http: HttpClient, leader: Broker, change: dict[str, Any], named: str
) -> None:
    reply = await http.request("POST", url_of(leader, BUNDLE), json=INITIAL | change)
    assert (reply.status, reply.json()["error"]) == (400, "InvalidPolicy")
    assert named in reply.json()["reason"]
    assert (await http.request("POST", url_of(leader))).status == 400
    assert await leader.metadata.store.get(paths.resource_quota(BUNDLE)) is None


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("t/ns/0x40000000_0x90000000", 404),
        ("t/unknown/0x00000000_0xffffffff", 404),
        ("t/ns/nonsense", 412),
    ],
)
async def test_a_quota_of_an_invalid_or_unknown_bundle_is_refused(
    http: HttpClient, leader: Broker, method: str, path: str, status: int
) -> None:
    body = INITIAL if method == "POST" else None
    reply = await http.request(method, f"{url_of(leader)}/{path}", json=body)
    assert reply.status == status


async def test_frozen_policies_freeze_quotas(http: HttpClient, leader: Broker) -> None:
    await leader.metadata.store.create(paths.POLICIES_READ_ONLY, make_parents=True)
    for method, body in (("POST", OWN), ("DELETE", None)):
        reply = await http.request(method, url_of(leader, BUNDLE), json=body)
        assert (reply.status, reply.json()["error"]) == (403, "PoliciesReadOnly")
    assert (await http.request("GET", url_of(leader, BUNDLE))).json() == INITIAL
