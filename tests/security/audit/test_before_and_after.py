"""What changed, in the audit log, of each kind of change whose values are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_ctl.codec import decode_object
from broker_ctl.security.audit.log import AuditRules
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

ADMIN = "/admin/v2"
CLUSTERS = f"{ADMIN}/clusters/{CLUSTER}"
NS = f"{ADMIN}/namespaces/t/ns"
TOPICS = "/control/v1/partitions/topics"
TENANT = {"adminRoles": ["anna"], "allowedClusters": [CLUSTER]}
POLICY = {
    "namespaces": ["t/.*"],
    "primary": ["b1.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}
QUOTA = {
    "msgRateIn": 1.0,
    "msgRateOut": 2.0,
    "bandwidthIn": 3.0,
    "bandwidthOut": 4.0,
    "memory": 5.0,
    "dynamic": False,
}
SECRET = "token:a-secret-of-the-brokers"
PEER = {
    "serviceUrl": "http://there:8080",
    "brokerServiceUrl": "pulsar://there:6650",
    "brokerClientAuthenticationParameters": SECRET,
}

# Method, path and body; what the log has before and after, or a part of it.
Step = tuple[str, str, Any, Any, Any]


def changes(file: Path) -> list[dict[str, Any]]:
    rows = map(decode_object, file.read_bytes().splitlines())
    return [row for row in rows if row["kind"] == "change"]


async def send_all(file: Path, steps: Sequence[Step]) -> None:
    """Send requests, all of which succeed, to a broker that records them."""
    async with (
        serving_brokers([free_port()], audit=AuditRules(file)) as [broker],
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as http,
    ):
        for method, path, body, _, _ in steps:
            url = f"{broker.url}{path}"
            async with http.request(method, url, json=body) as reply:
                assert reply.status < 300, (method, path, await reply.text())
        await broker.dependencies.audit.close()


STEPS: dict[str, list[Step]] = {
    "tenants": [
        ("PUT", f"{ADMIN}/tenants/shop", TENANT, None, TENANT),
        ("POST", f"{ADMIN}/tenants/shop", TENANT | {"adminRoles": []}, TENANT, ...),
        ("DELETE", f"{ADMIN}/tenants/shop", None, TENANT | {"adminRoles": []}, None),
    ],
    "namespaces": [
        ("PUT", f"{ADMIN}/namespaces/t/new", {"bundles": {"numBundles": 3}}, None, {"bundles": 3}),
        ("POST", f"{ADMIN}/namespaces/t/new/antiAffinity", "group-1", None, "group-1"),
        ("DELETE", f"{ADMIN}/namespaces/t/new/antiAffinity", None, "group-1", None),
        ("POST", f"{ADMIN}/namespaces/t/new/replication", [CLUSTER], [CLUSTER], [CLUSTER]),
        (
            "DELETE",
            f"{ADMIN}/namespaces/t/new",
            None,
            {"bundles": 3, "replication_clusters": [CLUSTER]},
            None,
        ),
    ],
    "partitioned topics": [
        ("PUT", f"{ADMIN}/persistent/t/ns/many/partitions", 2, None, {"partitions": 2}),
        (
            "POST",
            f"{ADMIN}/persistent/t/ns/many/partitions",
            4,
            {"partitions": 2},
            {"partitions": 4},
        ),
        ("DELETE", f"{ADMIN}/persistent/t/ns/many/partitions", None, {"partitions": 4}, None),
    ],
    "isolation policies": [
        ("POST", f"{CLUSTERS}/namespaceIsolationPolicies/p", POLICY, None, POLICY),
        ("DELETE", f"{CLUSTERS}/namespaceIsolationPolicies/p", None, POLICY, None),
    ],
    "failure domains": [
        ("POST", f"{CLUSTERS}/failureDomains/d", {"brokers": ["b1:1"]}, None, ["b1:1"]),
        ("DELETE", f"{CLUSTERS}/failureDomains/d", None, ["b1:1"], None),
    ],
    "quotas": [
        ("POST", f"{ADMIN}/resource-quotas", QUOTA, {"memory": ...}, QUOTA),
        ("DELETE", f"{ADMIN}/resource-quotas", None, QUOTA, None),
    ],
    "clusters": [
        ("PUT", f"{ADMIN}/clusters/there", PEER, None, {"serviceUrl": "http://there:8080"}),
        ("POST", f"{ADMIN}/clusters/{CLUSTER}/peers", ["there"], None, ["there"]),
        ("POST", f"{ADMIN}/clusters/{CLUSTER}/peers", [], ["there"], []),
        ("DELETE", f"{ADMIN}/clusters/there", None, {"serviceUrl": "http://there:8080"}, None),
    ],
    "pauses": [
        ("PUT", "/control/v1/pause", {"by": "anna"}, None, {"paused": True, "by": "anna"}),
        ("DELETE", "/control/v1/pause", None, {"paused": True, "by": "anna"}, None),
    ],
    "splits": [
        (
            "PUT",
            f"{NS}/{BUNDLES[0].range}/split?authoritative=true",
            None,
            {"bundles": [str(BUNDLES[0])]},
            {"bundles": ...},
        ),
        ("PUT", f"{NS}/LARGEST/split", None, {"bundles": ...}, {"bundles": ...}),
    ],
    "merges": [
        (
            "PUT",
            f"{NS}/{BUNDLES[2].range}/merge",
            None,
            {"bundles": [str(BUNDLES[2]), str(BUNDLES[3])]},
            {"bundles": [str(BUNDLES[2].joined(BUNDLES[3]))]},
        ),
    ],
    "whole namespaces": [("PUT", f"{NS}/unload", None, {"owners": {}}, {"owners": {}})],
    "elections": [
        ("PUT", f"{TOPICS}/orders", {"replicas": {"0": [1, 2]}}, None, ...),
        (
            "POST",
            "/control/v1/partitions/elections",
            {"kind": "preferred", "partitions": [{"topic": "orders", "partition": 0}]},
            {"leaders": {"orders-0": ...}},
            {"kind": "preferred", "leaders": {"orders-0": 1}},
        ),
    ],
}


def covers(found: Any, expected: Any) -> bool:
    """Whether a value has what is expected of it; ``...`` is anything."""
    if expected is ...:
        return found is not None
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and covers(found[name], value) for name, value in expected.items()
        )
    return bool(found == expected)


@pytest.mark.parametrize("kind", STEPS)
async def test_a_change_is_recorded_with_what_it_changes(tmp_path: Path, kind: str) -> None:
    file, steps = tmp_path / "audit.log", STEPS[kind]
    await send_all(file, steps)
    events = changes(file)
    assert len(events) == len(steps)
    for event, (method, path, _, before, after) in zip(events, steps, strict=True):
        where = (method, path, event.get("before"), event.get("after"))
        assert covers(event.get("before"), before), where
        assert covers(event.get("after"), after), where
    # Cluster data may hold the credentials of brokers.
    assert SECRET not in file.read_text()
