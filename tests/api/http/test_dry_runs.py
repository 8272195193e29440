"""Dry runs: judged by what would act, in its words, and nothing is written."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import OrderConflict
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, NAMESPACE, TOPICS, Broker
from tests.support.clusters.tenants import make_tenants

NS = f"/admin/v2/namespaces/{NAMESPACE}"
BUNDLE = f"{NS}/{BUNDLES[1].range}"
POLICIES = f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies"
DOMAINS = f"/admin/v2/clusters/{CLUSTER}/failureDomains"
CONFIGURATION = "/admin/v2/brokers/configuration"
POLICY = {
    "namespaces": ["t/.*"],
    "primary": [r"127\\.0\\.0\\.1"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}
INFO = {"allowedClusters": [CLUSTER]}
WEST = {"serviceUrl": "http://west:8080"}
# What acts for brokers, or is asked with nothing but itself to read, is not for operators' hands.
NO_DRY_RUN = {
    # Forms of the console: the request that such a form is for has the dry run.
    ("POST", "/ui/act"),
    ("POST", "/ui/sign-in"),
    ("POST", "/ui/sign-out"),
    # What the driver of a rollout reports has happened already.
    ("PUT", "/control/v1/rollout/brokers/{broker}"),
    ("POST", "/control/v1/{verb}"),
    ("POST", "/control/v1/instructions"),
    ("POST", "/control/v1/controlled-shutdown"),
    ("POST", "/control/v1/partitions/plan"),
    ("POST", "/admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}"),
    ("DELETE", "/admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}"),
    ("POST", "/admin/v2/resource-quotas"),
    ("DELETE", "/admin/v2/resource-quotas"),
}
REFUSED: list[tuple[str, str, Any, int]] = [
    ("PUT", "/control/v1/drains/nobody:1", {}, 404),
    ("DELETE", "/control/v1/drains/nobody:1", None, 404),
    ("POST", f"{CONFIGURATION}/dryRun/perhaps", None, 412),
    ("POST", f"{CONFIGURATION}/nosuchkey/3", None, 412),
    ("DELETE", f"{CONFIGURATION}/nosuchkey", None, 412),
    ("POST", "/admin/v2/clusters/elsewhere/namespaceIsolationPolicies/p", POLICY, 404),
    ("POST", f"{POLICIES}/p", {}, 400),
    ("DELETE", f"{POLICIES}/nosuch", None, 404),
    ("POST", f"{DOMAINS}/d", {"brokers": []}, 400),
    ("DELETE", f"{DOMAINS}/nosuch", None, 404),
    ("POST", "/admin/v2/namespaces/no/such/antiAffinity", "group", 404),
    ("PUT", NS, None, 409),
    ("DELETE", "/admin/v2/namespaces/no/such", None, 404),
    ("PUT", "/admin/v2/namespaces/no/such/unload", None, 404),
    ("PUT", f"{NS}/0x00000000_0x00000001/unload", None, 412),
    ("PUT", f"{BUNDLE}/unload?destinationBroker=nobody:1", None, 409),
    ("PUT", f"{BUNDLE}/merge?with=0x00000000_0x00000001", None, 412),
    (
        "PUT",
        f"/admin/v2/{str(TOPICS[0]).replace('://', '/').replace(' ', '%20')}-x/unload",
        None,
        404,
    ),
    ("PUT", "/admin/v2/persistent/no/such/topic/partitions", 4, 404),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/topic/partitions", 0, 406),
    ("POST", f"/admin/v2/persistent/{NAMESPACE}/topic/partitions", 4, 409),
    ("DELETE", f"/admin/v2/persistent/{NAMESPACE}/topic/partitions", None, 404),
    ("PUT", "/admin/v2/namespaces/nobody/ns", None, 404),
    ("POST", f"{NS}/replication", ["nowhere"], 403),
    ("PUT", "/admin/v2/tenants/t", INFO, 409),
    ("PUT", "/admin/v2/tenants/new", {}, 412),
    ("POST", "/admin/v2/tenants/nobody", INFO, 404),
    ("DELETE", "/admin/v2/tenants/t", None, 409),
    ("DELETE", "/admin/v2/tenants/nobody", None, 404),
    ("PUT", "/admin/v2/clusters/a%20b", WEST, 412),
    ("POST", "/admin/v2/clusters/west", WEST, 404),
    ("POST", f"/admin/v2/clusters/{CLUSTER}/peers", ["west"], 412),
    ("DELETE", f"/admin/v2/clusters/{CLUSTER}", None, 412),
]
DONE: list[tuple[str, str, Any]] = [
    ("PUT", "/control/v1/pause", {}),
    ("DELETE", "/control/v1/pause", None),
    ("PUT", "/control/v1/drains/LEADER", {}),
    ("DELETE", "/control/v1/drains/LEADER", None),
    ("PUT", "/control/v1/plans/0123456789ab", {}),
    ("DELETE", "/control/v1/plans/0123456789ab", {}),
    ("POST", f"{CONFIGURATION}/dryRun/true", None),
    ("DELETE", f"{CONFIGURATION}/dryRun", None),
    ("POST", f"{POLICIES}/p", POLICY),
    ("POST", f"{DOMAINS}/d", {"brokers": ["a:1"]}),
    ("POST", f"{NS}/antiAffinity", "group"),
    ("DELETE", f"{NS}/antiAffinity", None),
    ("PUT", "/admin/v2/namespaces/t/new", None),
    ("PUT", f"{NS}/unload", None),
    ("PUT", f"{BUNDLE}/unload", None),
    ("PUT", f"{BUNDLE}/unload?destinationBroker=LEADER", None),
    ("PUT", f"{BUNDLE}/split", None),
    ("PUT", f"{NS}/HOT/split", None),
    ("PUT", f"{BUNDLE}/merge", None),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/topic/partitions", 4),
    ("POST", f"{NS}/replication", [CLUSTER]),
    ("PUT", "/admin/v2/tenants/new", INFO),
    ("POST", "/admin/v2/tenants/t", INFO),
    ("DELETE", "/admin/v2/tenants/idle", None),
    ("PUT", "/admin/v2/clusters/west", WEST),
    ("POST", f"/admin/v2/clusters/{CLUSTER}", WEST),
    ("POST", f"/admin/v2/clusters/{CLUSTER}/peers", []),
    ("DELETE", "/admin/v2/clusters/idle", None),
]


def with_dry_run(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}dry_run=true"


async def body_of(http: HttpClient, method: str, url: str, body: Any) -> tuple[int, Any]:
    reply = await http.request(method, url, json=body)
    if reply.status == 307:
        reply = await http.request(method, reply.headers["Location"], json=body)
    return reply.status, reply.json() if reply.body else None


@pytest.mark.parametrize("refused", REFUSED)
async def test_a_dry_run_is_refused_with_the_error_of_the_real_request(
    pair: tuple[Broker, Broker], http: HttpClient, refused: tuple[str, str, Any, int]
) -> None:
    method, path, body, status = refused
    follower = pair[1]
    follower.world.assign(BUNDLES[1], follower.broker_id)
    judged = await body_of(http, method, follower.url + with_dry_run(path), body)
    acted = await body_of(http, method, follower.url + path, body)
    assert judged == acted
    assert judged[0] == status


@pytest.mark.parametrize(("method", "path", "body"), DONE)
async def test_a_dry_run_answers_with_its_forecast_and_changes_nothing(
    pair: tuple[Broker, Broker], http: HttpClient, method: str, path: str, body: Any
) -> None:
    leader, follower = pair
    await follower.serve(BUNDLES[1])
    await make_tenants(leader.metadata.store, CLUSTER, "idle")
    await leader.metadata.policies.clusters.create("idle", WEST)
    world = follower.world
    before = dict(world.rings), dict(world.owners), leader.metadata.zxid
    url = follower.url + with_dry_run(path).replace("LEADER", leader.broker_id)
    status, forecast = await body_of(http, method, url, body)
    assert (status, bool(forecast)) == (200, True)
    assert (dict(world.rings), dict(world.owners), leader.metadata.zxid) == before
    assert leader.admin.operations.asked == []
    assert leader.admin.ordered_by == []


async def test_a_drain_that_would_be_refused_is_refused_without_being_ordered(
    pair: tuple[Broker, Broker], http: HttpClient
) -> None:
    leader, follower = pair
    leader.admin.operations.refuse = OrderConflict("no room")
    url = f"{follower.url}/control/v1/drains/{follower.broker_id}?dry_run=true"
    assert await body_of(http, "PUT", url, {}) == (
        409,
        {"error": "OrderConflict", "reason": "no room"},
    )


def changing_routes(broker: Broker) -> Iterator[tuple[str, str]]:
    for route in ApiServer(broker.dependencies, ApiRules(CLUSTER)).routes():
        if route.method not in {"GET", "HEAD"}:
            yield route.method, route.path


async def test_a_dry_run_never_reaches_a_handler_that_would_act(
    leader: Broker, http: HttpClient
) -> None:
    unknown = set()
    for method, path in changing_routes(leader):
        spelled = path.replace(":[^/]+}", "}")
        spelled = re.sub(r"\{domain[^}]*\}", "persistent", spelled)
        url = leader.url + re.sub(r"\{(\w+)\}", r"\1", spelled) + "?dry_run=true"
        reply = await http.request(method, url)
        if reply.status == 400 and reply.json()["error"] == "NoDryRun":
            unknown.add((method, path))
    assert unknown == NO_DRY_RUN


async def test_a_dry_run_is_true_or_false(leader: Broker, http: HttpClient) -> None:
    reply = await http.request("PUT", f"{leader.url}/control/v1/pause?dry_run=perhaps")
    assert reply.status == 400
    assert leader.directives.pause is None
