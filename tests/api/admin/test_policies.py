"""Policies over HTTP, in the shape of Pulsar's admin API."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_ctl.api.http import bodies
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import UnloadFailed
from broker_ctl.http_client import HttpClient
from broker_ctl.store.paths import POLICIES_READ_ONLY
from tests.support.clusters.fake_services import (
    BUNDLES,
    CLUSTER,
    NAMESPACE,
    TOKEN,
    Broker,
    serving_brokers,
)
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

ISOLATION = f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies"
DOMAINS = f"/admin/v2/clusters/{CLUSTER}/failureDomains"
GROUP = "/admin/v2/namespaces/t/ns/antiAffinity"
ELSEWHERE = "nobody-has-this-host"
READER = "a-secret-of-another-user"
HERE = r"127\.0\.0\.1"
FAILOVER = {
    "policy_type": "min_available",
    "parameters": {"min_limit": "1", "usage_threshold": "80"},
}


def policy(*primary: str, **more: Any) -> dict[str, Any]:
    return {
        "namespaces": ["t/ns.*"],
        "primary": list(primary),
        "secondary": [],
        "auto_failover_policy": FAILOVER,
        **more,
    }


async def status_of(http: HttpClient, broker: Broker, method: str, path: str, json: Any) -> int:
    return (await http.request(method, broker.url + path, json=json)).status


# Isolation policies.


async def test_isolation_policies_come_and_go(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    url = f"{leader.url}{ISOLATION}"
    assert (await http.request("GET", url)).json() == {}
    one, two = policy("b-1"), policy("b-2", unload_scope="none")
    assert (await http.request("POST", f"{url}/one", json=one)).status == 204
    assert (await http.request("POST", f"{url}/two", json=two)).status == 204
    listed = await http.request("GET", f"{follower.url}{ISOLATION}")
    assert (listed.status, listed.json()) == (200, {"one": one, "two": two})
    assert (await http.request("GET", f"{url}/two")).json() == two
    assert (await http.request("DELETE", f"{url}/one")).status == 204
    for method in ("GET", "DELETE"):
        gone = await http.request(method, f"{url}/one")
        assert (gone.status, gone.json()["error"]) == (404, "PolicyMissing")


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (None, 400, "namespaces"),
        ([], 400, "object"),
        ({"namespaces": ["x"]}, 400, "primary"),
        (policy(), 400, "primary"),
        (policy("("), 400, "primary"),
        (policy("(a+)+b"), 400, "primary"),
        (policy("x", namespaces="t/.*"), 400, "namespaces"),
        (policy("x", unload_scope="some"), 400, "unload_scope"),
        (
            policy("x", auto_failover_policy={"parameters": {"min_limit": "-1"}}),
            400,
            "min_limit",
        ),
    ],
)
async def test_a_policy_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, body: Any, status: int, named: str
) -> None:
    reply = await http.request("POST", f"{leader.url}{ISOLATION}/p", json=body)
    assert reply.status == status
    assert named in reply.json()["reason"]
    assert (await http.request("GET", f"{leader.url}{ISOLATION}")).json() == {}


@pytest.mark.parametrize("path", [ISOLATION, f"{ISOLATION}/brokers", DOMAINS, f"{DOMAINS}/d"])
async def test_another_cluster_is_not_known_here(
    http: HttpClient, leader: Broker, path: str
) -> None:
    reply = await http.request("GET", leader.url + path.replace(f"/{CLUSTER}/", "/other/"))
    assert (reply.status, reply.json()["error"]) == (404, "NoCluster")


async def test_brokers_are_returned_with_the_policy_that_names_them(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    url = f"{leader.url}{ISOLATION}"
    body = policy("b-1", secondary=[HERE])
    assert (await http.request("POST", f"{url}/p", json=body)).status == 204
    here = {"policyName": "p", "primary": False, "namespaceRegex": ["t/ns.*"]}
    listed = (await http.request("GET", f"{url}/brokers")).json()
    assert listed == [
        {"brokerName": broker_id} | here
        for broker_id in sorted([leader.broker_id, follower.broker_id])
    ]
    primary = (await http.request("GET", f"{url}/brokers/b-1:8080")).json()
    assert primary == here | {"brokerName": "b-1:8080", "primary": True}
    free = (await http.request("GET", f"{url}/brokers/b-9:8080")).json()
    assert free == {"brokerName": "b-9:8080", "primary": False}


# Unloading for a policy.


@pytest.fixture
def owned(leader: Broker, follower: Broker) -> None:
    """Bundles of t/ns on both brokers; the last one has no owner."""
    for bundle, owner in zip(BUNDLES, [leader, follower, leader], strict=False):
        leader.world.assign(bundle, owner.broker_id)


@pytest.mark.usefixtures("owned")
@pytest.mark.parametrize(
    ("scope", "primary", "left"),
    [
        ("changed", ELSEWHERE, 0),
        ("all_matching", ELSEWHERE, 0),
        ("changed", HERE, 3),
        ("all_matching", HERE, 3),
        ("none", ELSEWHERE, 3),
        (None, ELSEWHERE, 3),
    ],
)
async def test_bundles_leave_brokers_that_may_not_serve_them_any_more(
    http: HttpClient, leader: Broker, scope: str | None, primary: str, left: int
) -> None:
    url = f"{leader.url}{ISOLATION}/p"
    reply = await http.request("POST", url, json=policy(primary, unload_scope=scope))
    assert reply.status == 204
    assert len(leader.world.owners) == left


@pytest.mark.usefixtures("owned")
async def test_changed_leaves_alone_what_has_not_changed(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{ISOLATION}/p"
    assert (await http.request("POST", url, json=policy(ELSEWHERE))).status == 204
    same = policy(ELSEWHERE, unload_scope="changed")
    assert (await http.request("POST", url, json=same)).status == 204
    assert len(leader.world.owners) == 3
    again = policy(ELSEWHERE, unload_scope="all_matching")
    assert (await http.request("POST", url, json=again)).status == 204
    assert leader.world.owners == {}


@pytest.mark.usefixtures("owned")
async def test_a_policy_is_set_and_its_failed_unloads_are_reported(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    follower.ownership.refuse = UnloadFailed("topics are open")
    url = f"{leader.url}{ISOLATION}/p"
    reply = await http.request("POST", url, json=policy(ELSEWHERE, unload_scope="changed"))
    assert (reply.status, reply.json()["error"]) == (503, "UnloadFailed")
    assert "the policy is set" in reply.json()["reason"]
    assert "t/ns: 1 bundles" in reply.json()["reason"]
    assert list(leader.world.owners) == [BUNDLES[1]]
    assert "p" in (await http.request("GET", f"{leader.url}{ISOLATION}")).json()


@pytest.mark.usefixtures("owned")
async def test_a_namespace_that_was_deleted_meanwhile_is_not_an_error(
    http: HttpClient, leader: Broker
) -> None:
    # It has policies, and no ring any more.
    await leader.metadata.namespaces.create(Namespace("t", "ns-gone"))
    url = f"{leader.url}{ISOLATION}/p"
    body = policy(ELSEWHERE, unload_scope="changed")
    assert (await http.request("POST", url, json=body)).status == 204
    assert leader.world.owners == {}


# Failure domains.


async def test_failure_domains_come_and_go(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}{DOMAINS}"
    assert (await http.request("GET", url)).json() == {}
    rack = {"brokers": ["b-1:8080", "b-2:8080"]}
    assert (await http.request("POST", f"{url}/rack-1", json=rack)).status == 204
    assert (await http.request("GET", url)).json() == {"rack-1": rack}
    assert (await http.request("GET", f"{url}/rack-1")).json() == rack
    taken = await http.request("POST", f"{url}/rack-2", json={"brokers": ["b-2:8080"]})
    assert (taken.status, taken.json()["error"]) == (409, "PolicyConflict")
    assert (await http.request("DELETE", f"{url}/rack-1")).status == 204
    for method in ("GET", "DELETE"):
        assert (await http.request(method, f"{url}/rack-1")).status == 404
    assert (await http.request("POST", f"{url}/rack-2", json=rack)).status == 204


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("d", None, 400),
        ("d", {"brokers": "b:1"}, 400),
        ("d", {"brokers": [1]}, 400),
        ("d", {"brokers": []}, 400),
        ("d", {"brokers": ["b/x:1"]}, 400),
        ("a%2Fb", {"brokers": ["b:1"]}, 412),
        ("a%00", {"brokers": ["b:1"]}, 412),
    ],
)
async def test_a_failure_domain_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, name: str, body: Any, status: int
) -> None:
    assert await status_of(http, leader, "POST", f"{DOMAINS}/{name}", body) == status
    assert (await http.request("GET", f"{leader.url}{DOMAINS}")).json() == {}


# Anti-affinity.


@pytest.mark.parametrize("body", [b'"group-a"', b"group-a", b" group-a\n"])
async def test_a_group_is_taken_as_a_json_string_and_as_bare_text(
    http: HttpClient, leader: Broker, body: bytes
) -> None:
    url = leader.url + GROUP
    assert (await http.request("GET", url)).status == 204
    assert (await http.request("POST", url, content=body)).status == 204
    shown = await http.request("GET", url)
    assert (shown.status, shown.body) == (200, b"group-a")
    by_group = f"{leader.url}/admin/v2/namespaces/{CLUSTER}/antiAffinity"
    members = await http.request("GET", f"{by_group}/GROUP-A?tenant=t")
    assert (members.status, members.json()) == (200, [str(NAMESPACE)])
    assert (await http.request("GET", f"{by_group}/other?tenant=t")).json() == []
    assert (await http.request("GET", f"{by_group}/group-a")).status == 412
    assert (await http.request("DELETE", url)).status == 204
    assert (await http.request("GET", url)).status == 204


@pytest.mark.parametrize("body", [b"", b'""', b"a b", b'"a/b"', b"\xff", b"x" * 129, b'["a"]'])
async def test_a_group_without_a_usable_name_is_refused(
    http: HttpClient, leader: Broker, body: bytes
) -> None:
    reply = await http.request("POST", leader.url + GROUP, content=body)
    assert (reply.status, reply.json()["error"]) == (412, "InvalidName")


async def test_a_form_of_a_web_page_sets_no_group(http: HttpClient, leader: Broker) -> None:
    # By hand: a client would say that it is JSON.
    reader, writer = await asyncio.open_connection(*leader.broker_id.split(":"))
    writer.write(
        f"POST {GROUP} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\ng".encode()
    )
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (await http.request("GET", leader.url + GROUP)).status == 204


async def test_a_group_that_is_never_sent_is_not_waited_for(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LIMIT_S", 0.1)
    reader, writer = await asyncio.open_connection(*leader.broker_id.split(":"))
    writer.write(
        f"POST {GROUP} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 9\r\n\r\ng".encode()
    )
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("path", [f"{ISOLATION}/p", f"{DOMAINS}/d", GROUP])
async def test_a_long_body_is_refused(http: HttpClient, path: str) -> None:
    rules = ApiRules(CLUSTER, max_body_bytes=2048)
    async with serving_brokers([free_port()], rules) as [broker]:
        body = {"primary": ["x" * 4096]}
        assert (await http.request("POST", broker.url + path, json=body)).status == 413


async def test_groups_of_what_is_not_there_are_not_found(http: HttpClient, leader: Broker) -> None:
    url = f"{leader.url}/admin/v2/namespaces"
    for method, path in (("GET", "t/no/antiAffinity"), ("GET", "other/antiAffinity/g?tenant=t")):
        assert (await http.request(method, f"{url}/{path}")).status == 404
    gone = await http.request("POST", f"{url}/t/no/antiAffinity", json="g")
    assert (gone.status, gone.json()["error"]) == (404, "NamespaceMissing")


# Read-only.

WRITES = [
    ("POST", f"{ISOLATION}/p", policy("x")),
    ("DELETE", f"{ISOLATION}/kept", None),
    ("POST", f"{DOMAINS}/d", {"brokers": ["b:1"]}),
    ("DELETE", f"{DOMAINS}/kept", None),
    ("POST", GROUP, "g"),
    ("DELETE", GROUP, None),
    ("PUT", "/admin/v2/namespaces/t/new", None),
    ("DELETE", "/admin/v2/namespaces/t/ns", None),
    ("PUT", f"/admin/v2/namespaces/t/ns/{BUNDLES[0].range}/split", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
async def test_a_write_is_refused_while_policies_are_read_only(
    http: HttpClient, leader: Broker, method: str, path: str, body: Any
) -> None:
    await leader.metadata.policies.domains.set("kept", ["kept:1"])
    kept = f"{leader.url}{ISOLATION}/kept"
    assert (await http.request("POST", kept, json=policy("x"))).status == 204
    await leader.metadata.store.create(POLICIES_READ_ONLY, make_parents=True)
    reply = await http.request(method, leader.url + path, json=body)
    assert (reply.status, reply.json()["error"]) == (403, "PoliciesReadOnly")
    assert POLICIES_READ_ONLY in reply.json()["reason"]
    assert set(leader.world.rings) == {NAMESPACE}
    assert len(leader.world.rings[NAMESPACE].bundles) == len(BUNDLES)
    await leader.metadata.store.delete(POLICIES_READ_ONLY)
    assert (await http.request(method, leader.url + path, json=body)).status in {204, 307}


async def test_lookups_reads_and_unloads_go_on_while_policies_are_read_only(
    http: HttpClient, leader: Broker
) -> None:
    await leader.metadata.store.create(POLICIES_READ_ONLY, make_parents=True)
    for path in ("/lookup/v2/topic/persistent/t/ns/x", ISOLATION, DOMAINS):
        assert (await http.request("GET", leader.url + path)).status == 200
    leader.world.assign(BUNDLES[0], leader.broker_id)
    url = f"{leader.url}/admin/v2/namespaces/t/ns/unload"
    assert (await http.request("PUT", url)).status == 204


# Who may.


@pytest.fixture
async def guarded() -> AsyncIterator[Broker]:
    text = f"operator:{TOKEN}\nreader:{READER}"
    rules = ApiRules(CLUSTER, **admitting(text, ["operator"]))
    async with serving_brokers([free_port()], rules) as [broker]:
        yield broker


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
async def test_writes_are_for_super_users(
    guarded: Broker, method: str, path: str, body: Any
) -> None:
    for token, status in ((None, 401), (READER, 403)):
        async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
            assert await status_of(http, guarded, method, path, body) == status
    async with HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        assert await status_of(http, guarded, method, path, body) in {204, 307, 404}


@pytest.mark.parametrize("path", [ISOLATION, f"{ISOLATION}/brokers", DOMAINS])
async def test_reads_are_for_every_role(guarded: Broker, http: HttpClient, path: str) -> None:
    assert (await http.request("GET", guarded.url + path)).status == 401
    async with HttpClient(token=READER, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as reader:
        assert (await reader.request("GET", guarded.url + path)).status == 200


async def test_a_policy_that_is_set_is_logged_with_its_values(
    http: HttpClient, leader: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        body = policy("b-1", secondary=["b-2"], unload_scope="changed")
        await http.request("POST", f"{leader.url}{ISOLATION}/one", json=body)
    message = (
        "isolation policy one was set: namespaces t/ns.*, primary b-1, secondary b-2, min_limit 1"
    )
    assert f"{message}, unload scope changed" in caplog.text


async def test_the_value_of_an_override_is_in_the_log(
    http: HttpClient, leader: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        path = "/admin/v2/brokers/configuration/dryRun/true"
        assert (await http.request("POST", leader.url + path)).status == 204
    assert "dryRun is overridden by 'true' for all brokers" in caplog.text
