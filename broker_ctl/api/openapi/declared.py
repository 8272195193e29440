"""What each route takes and answers: one row for each, as its handler reads and writes it.

`tests/api/openapi/test_document.py` fails for a route without a row, and for a row without a route.
Statuses that follow from the route itself (its access, its path, a body) are added by `document`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.api.openapi.schemas import (
    FLAG,
    OBJECT,
    TEXT,
    Schema,
    by_name,
    listed,
    or_null,
    ref,
)

_JSON: Final = "application/json"
_PLAIN: Final = "text/plain"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_TEXTS: Final = listed(TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRoute:
    """One row.

    Attributes:
        status: of a success.
        answer: schema of its body; None: it is empty.
        answer_type: its content type.
        also: further successes without a body.
        body: schema of the request's body; None: it has none.
        is_required: whether the body may not be left out.
        query: parameters of the query, besides ``dry_run``.
        required: those of them that a request needs.
        errors: statuses of errors, besides those that `document` adds.
        is_redirected: whether another broker may have to answer: 307.
    """

    status: int = 200
    answer: Schema | None = None
    answer_type: str = _JSON
    also: tuple[int, ...] = ()
    body: Schema | None = None
    is_required: bool = False
    query: Mapping[str, Schema] = field(default_factory=lambda: _NONE)
    required: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()
    is_redirected: bool = False


def _reads(answer: Schema | None, *errors: int, **more: Any) -> DeclaredRoute:
    return DeclaredRoute(answer=answer, errors=errors, **more)


def _text(*errors: int, **more: Any) -> DeclaredRoute:
    return DeclaredRoute(answer=TEXT, answer_type=_PLAIN, errors=errors, **more)


def _writes(*errors: int, body: Schema | None = None, **more: Any) -> DeclaredRoute:
    return DeclaredRoute(status=204, body=body, errors=errors, **more)


def _acts(answer: Schema, *errors: int, body: Schema | None = None, **more: Any) -> DeclaredRoute:
    """An act of the leader or of the controller."""
    return DeclaredRoute(answer=answer, body=body, errors=errors, is_redirected=True, **more)


def _led(answer: Schema, *errors: int, **more: Any) -> DeclaredRoute:
    """What the leader or the controller knows."""
    return DeclaredRoute(answer=answer, errors=errors, is_redirected=True, **more)


_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 1_000}
# In ms since 1970.
_MOMENT: Final = {"type": "integer", "minimum": 1, "maximum": 253_402_300_799_999}
_POINTS: Final = {"type": "integer", "minimum": 1, "maximum": 720}
_KIND: Final = {"enum": ["assign", "transfer", "split", "merge", "skip"]}
_RESULT: Final = {"enum": ["done", "failed", "dry_run", "paused", "held_back", "skipped"]}
_POSITIONS: Final = listed({"type": "integer", "minimum": 0, "maximum": 2**32 - 1})
_COUNT: Final = {"type": "integer", "minimum": 1}
_TOPICS: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_TOPICS}/{{topic}}"
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_ISOLATION: Final = f"{_CLUSTER}/namespaceIsolationPolicies"
_DOMAINS: Final = f"{_CLUSTER}/failureDomains"
_BROKERS: Final = "/admin/v2/brokers"
_CONFIGURATION: Final = f"{_BROKERS}/configuration"
_PARTITIONS: Final = "/control/v1/partitions"
_REPLICATED: Final = f"{_PARTITIONS}/topics/{{topic}}"
_MEMBERS: Final = _reads(_TEXTS, 404, 412, query={"tenant": TEXT, "property": TEXT})

_LOOKUP: Final = {
    "GET /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}": DeclaredRoute(
        answer=ref("LookupData"),
        query={"authoritative": FLAG, "listenerName": TEXT},
        errors=(409,),
        is_redirected=True,
    ),
    "GET /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle": _text(),
    "GET /lookup/v2/topic/{domain}/{tenant}/{cluster}/{namespace}/{topic}": _reads(None, 404, 412),
    "GET /lookup/v2/destination/{name}": _reads(None, 404, 412),
    "GET /partitions/v1/leader/{topic}": _reads(ref("PartitionLeaders"), 404, 412),
    "GET /partitions/v1/leader/{topic}/{partition}": _reads(ref("PartitionLeader"), 404, 412),
}
_TENANTS_AND_CLUSTERS: Final = {
    "GET /admin/v2/tenants": _reads(_TEXTS),
    "GET /admin/v2/tenants/{tenant}": _reads(ref("TenantInfo"), 404),
    "PUT /admin/v2/tenants/{tenant}": _writes(409, body=ref("TenantInfo")),
    "POST /admin/v2/tenants/{tenant}": _writes(404, body=ref("TenantInfo")),
    "DELETE /admin/v2/tenants/{tenant}": _writes(404, 405, 409, query={"force": FLAG}),
    "GET /admin/v2/clusters": _reads(_TEXTS),
    f"GET {_CLUSTER}": _reads(ref("ClusterData"), 404),
    f"PUT {_CLUSTER}": DeclaredRoute(body=ref("ClusterData"), errors=(409, 412)),
    f"POST {_CLUSTER}": DeclaredRoute(body=ref("ClusterData"), errors=(404, 412)),
    f"DELETE {_CLUSTER}": _writes(404, 412),
    f"GET {_CLUSTER}/peers": _reads(or_null(_TEXTS), 404),
    f"POST {_CLUSTER}/peers": _writes(404, 412, body=_TEXTS),
    f"GET {_ISOLATION}": _reads(by_name(ref("NamespaceIsolationData")), 404),
    f"GET {_ISOLATION}/brokers": _reads(listed(ref("BrokerNamespaceIsolationData")), 404),
    f"GET {_ISOLATION}/brokers/{{broker}}": _reads(ref("BrokerNamespaceIsolationData"), 404),
    f"GET {_ISOLATION}/{{policy}}": _reads(ref("NamespaceIsolationData"), 404),
    f"POST {_ISOLATION}/{{policy}}": _writes(
        404, 412, body=ref("NamespaceIsolationData"), is_required=True
    ),
    f"DELETE {_ISOLATION}/{{policy}}": _writes(404, 412),
    f"GET {_DOMAINS}": _reads(by_name(ref("FailureDomain")), 404),
    f"GET {_DOMAINS}/{{domain}}": _reads(ref("FailureDomain"), 404),
    f"POST {_DOMAINS}/{{domain}}": _writes(
        404, 409, 412, body=ref("FailureDomain"), is_required=True
    ),
    f"DELETE {_DOMAINS}/{{domain}}": _writes(404, 412),
}
_NAMESPACES: Final = {
    "GET /admin/v2/namespaces/{tenant}": _reads(_TEXTS, 404),
    f"GET {_NAMESPACE}": _reads(ref("Policies")),
    f"PUT {_NAMESPACE}": _writes(409, body=ref("Policies")),
    f"DELETE {_NAMESPACE}": _writes(405, 409, query={"force": FLAG}),
    f"GET {_NAMESPACE}/bundles": _reads(ref("BundlesData")),
    f"GET {_NAMESPACE}/topics": _reads(
        _TEXTS, query={"mode": {"enum": ["PERSISTENT", "NON_PERSISTENT", "ALL"]}}
    ),
    f"GET {_NAMESPACE}/replication": _reads(_TEXTS),
    f"POST {_NAMESPACE}/replication": _writes(409, body=_TEXTS),
    f"GET {_NAMESPACE}/permissions": _reads(ref("Permissions")),
    f"GET {_NAMESPACE}/antiAffinity": _text(also=(204,)),
    f"POST {_NAMESPACE}/antiAffinity": _writes(body=TEXT, is_required=True),
    f"DELETE {_NAMESPACE}/antiAffinity": _writes(),
    "GET /admin/v2/namespaces/{cluster}/antiAffinity/{group}": _MEMBERS,
    "GET /admin/namespaces/{cluster}/antiAffinity/{group}": _MEMBERS,
    f"PUT {_NAMESPACE}/unload": _writes(),
    f"PUT {_NAMESPACE}/{{bundle}}/unload": _writes(
        409, query={"destinationBroker": TEXT}, is_redirected=True
    ),
    f"PUT {_NAMESPACE}/{{bundle}}/split": _writes(
        409,
        body=_POSITIONS,
        query={"splitAlgorithmName": TEXT, "unload": FLAG, "authoritative": FLAG},
        is_redirected=True,
    ),
    f"PUT {_NAMESPACE}/{{bundle}}/merge": _writes(409, query={"with": TEXT}, is_redirected=True),
    "GET /admin/v2/resource-quotas": _reads(ref("ResourceQuota")),
    "POST /admin/v2/resource-quotas": _writes(body=ref("ResourceQuota"), is_required=True),
    "DELETE /admin/v2/resource-quotas": _writes(),
    "GET /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}": _reads(ref("ResourceQuota")),
    "POST /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}": _writes(
        body=ref("ResourceQuota"), is_required=True
    ),
    "DELETE /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}": _writes(),
}
_TOPIC_ROUTES: Final = {
    f"GET {_TOPICS}": _reads(_TEXTS, query={"bundle": TEXT}),
    f"GET {_TOPICS}/{{bundle}}": _reads(_TEXTS),
    f"GET {_TOPICS}/partitioned": _reads(_TEXTS),
    f"PUT {_TOPIC}/unload": _writes(409, is_redirected=True),
    f"GET {_TOPIC}/partitions": _reads(ref("PartitionedTopicMetadata")),
    f"PUT {_TOPIC}/partitions": _writes(406, 409, body=_COUNT),
    f"POST {_TOPIC}/partitions": _writes(409, 422, body=_COUNT),
    f"DELETE {_TOPIC}/partitions": _writes(),
}
_BROKER_ROUTES: Final = {
    f"GET {_BROKERS}": _reads(_TEXTS),
    f"GET {_BROKERS}/{{cluster}}": _reads(_TEXTS, 404),
    f"GET {_BROKERS}/leaderBroker": _reads(ref("BrokerInfo"), 404),
    f"GET {_BROKERS}/version": _text(),
    f"GET {_BROKERS}/internal-configuration": _reads(by_name(TEXT)),
    f"GET {_BROKERS}/backlog-quota-check": _reads(None, 501),
    f"GET {_BROKERS}/health": _text(),
    f"GET {_BROKERS}/ready": _text(),
    f"GET {_BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces": _led(by_name(OBJECT), 404),
    f"GET {_CONFIGURATION}": _reads(_TEXTS),
    f"GET {_CONFIGURATION}/values": _reads(by_name(TEXT)),
    f"GET {_CONFIGURATION}/runtime": _reads(by_name(TEXT)),
    f"POST {_CONFIGURATION}/{{name}}/{{value}}": _writes(412),
    f"DELETE {_CONFIGURATION}/{{name}}": _writes(412),
    "GET /admin/v2/broker-stats/load-report": _reads(OBJECT),
    "GET /admin/v2/broker-stats/topics": _reads(
        OBJECT, 412, query={"namespace": TEXT, "limit": {"type": "integer", "minimum": 1}}
    ),
}
_CONTROL: Final = {
    "GET /control/v1/status": _reads(ref("Status")),
    "GET /control/v1/owners": _reads(
        listed(ref("Owner")), 404, 412, query={"namespace": TEXT}, required=("namespace",)
    ),
    "GET /control/v1/topics/{tenant}/{namespace}": _reads(OBJECT),
    "GET /control/v1/cluster": _led(ref("Cluster")),
    "GET /control/v1/advice/size": _led(
        OBJECT, query={"growth_percent": {"type": "integer", "minimum": 1, "maximum": 1000}}
    ),
    "GET /control/v1/explain": _led(OBJECT, 404, query={"subject": TEXT}, required=("subject",)),
    "GET /control/v1/stacks": _text(),
    "GET /control/v1/pause": _reads(ref("Pause")),
    "PUT /control/v1/pause": DeclaredRoute(answer=ref("Pause"), body=ref("Audit")),
    "DELETE /control/v1/pause": _reads(ref("Pause")),
    "GET /control/v1/drains": _led(listed(OBJECT)),
    "PUT /control/v1/drains/{broker}": _acts(
        OBJECT, 404, 409, body=ref("DrainTerms"), query={"force": FLAG}
    ),
    "DELETE /control/v1/drains/{broker}": _acts(OBJECT, 404),
    "GET /control/v1/plan": _led(OBJECT, query={"verbose": FLAG, "heal_policies": FLAG}),
    "GET /control/v1/plans": _led(listed(OBJECT)),
    "POST /control/v1/plans": _acts(OBJECT, 409, 412, body=OBJECT, is_required=True),
    "GET /control/v1/plans/{plan}": _led(OBJECT, 404),
    "POST /control/v1/plans/{plan}": _acts(OBJECT, 404, 409, body=ref("Audit")),
    "PUT /control/v1/plans/{plan}": _acts(OBJECT, 404, 409, body=ref("Approval")),
    "GET /control/v1/proposals": _led(listed(OBJECT)),
    "DELETE /control/v1/plans/{plan}": _acts(OBJECT, 404, 409, body=ref("Audit")),
    "GET /control/v1/history": _led(
        listed(ref("Decision")),
        query={"kind": _KIND, "result": _RESULT, "broker": TEXT, "bundle": TEXT}
        | {"since_ms": _MOMENT, "until_ms": _MOMENT, "limit": _LIMIT},
    ),
    "GET /control/v1/imbalance": _led(listed(OBJECT), query={"points": _POINTS}),
    "GET /control/v1/rollout": _led(OBJECT, 404),
    "PUT /control/v1/rollout": _acts(OBJECT, 404, 409, 412, body=ref("RolloutRequest")),
    "GET /control/v1/rollout/plan": _led(
        OBJECT,
        404,
        409,
        412,
        query={"brokers": TEXT, "canary": TEXT, "max_unavailable": {"enum": ["1", "zone"]}},
    ),
    "POST /control/v1/rollout/{act}": _acts(OBJECT, 404, 409, body=ref("Audit")),
    "PUT /control/v1/rollout/brokers/{broker}": _acts(
        OBJECT, 404, 409, body=ref("RolloutReport"), is_required=True
    ),
    "POST /control/v1/{verb}": DeclaredRoute(
        answer=OBJECT, body=OBJECT, is_required=True, errors=(404, 409, 412)
    ),
}
_PARTITION_ROUTES: Final = {
    f"GET {_PARTITIONS}/controller": _led(ref("Controller"), 404),
    f"GET {_PARTITIONS}/transitions": _led(
        listed(OBJECT),
        404,
        412,
        query={"topic": TEXT, "partition": {"type": "integer", "minimum": 0}, "limit": _LIMIT},
    ),
    f"GET {_PARTITIONS}/explain": _led(
        ref("PartitionExplanation"),
        404,
        412,
        query={"topic": TEXT, "partition": {"type": "integer", "minimum": 0}},
    ),
    f"GET {_PARTITIONS}/topics": _led(listed(ref("ReplicatedTopicSummary")), 404),
    f"GET {_REPLICATED}": _led(ref("ReplicatedTopic"), 404, 412),
    f"PUT {_REPLICATED}": _acts(OBJECT, 404, 409, 412, body=ref("NewTopic"), is_required=True),
    f"POST {_REPLICATED}": _acts(
        OBJECT, 404, 409, 412, body=ref("MorePartitions"), is_required=True
    ),
    f"DELETE {_REPLICATED}": _acts(OBJECT, 404, 409, 412),
    f"POST {_REPLICATED}/rules": _acts(
        OBJECT, 404, 409, 412, body=ref("TopicRules"), is_required=True
    ),
    f"PUT {_REPLICATED}/topic-id": _acts(OBJECT, 404, 409, 412, body=ref("TopicId")),
    f"POST {_PARTITIONS}/plan": _acts(OBJECT, 404, 412, body=ref("Spread"), is_required=True),
    f"GET {_PARTITIONS}/reassignments": _led(listed(OBJECT), 404),
    f"PUT {_PARTITIONS}/reassignments": _acts(
        OBJECT, 404, 409, 412, body=ref("Reassignment"), is_required=True
    ),
    f"DELETE {_PARTITIONS}/reassignments": _acts(OBJECT, 404, 409, 412, body=ref("Partitions")),
    f"POST {_PARTITIONS}/reassignments/throttle": _acts(
        OBJECT, 404, 409, 412, body=ref("Throttle"), is_required=True
    ),
    f"POST {_PARTITIONS}/elections": _acts(
        OBJECT, 404, 409, 412, body=ref("Election"), is_required=True
    ),
    "POST /control/v1/controlled-shutdown": _acts(
        OBJECT, 404, 409, body=ref("ControlledShutdown"), is_required=True
    ),
    "POST /control/v1/instructions": DeclaredRoute(
        answer=OBJECT, body=OBJECT, is_required=True, errors=(404, 409)
    ),
}
_PROCESS: Final = {
    "GET /livez": _text(),
    "GET /readyz": _text(),
    "GET /status.html": _text(404),
    "GET /metrics": _text(),
    "GET /dataplane/v1/authority": _reads(ref("Authority")),
    "GET /openapi.json": _reads(OBJECT),
}

# Method and path, as `route_rules` has them.
DECLARED: Final[Mapping[str, DeclaredRoute]] = MappingProxyType(
    {
        **_LOOKUP,
        **_TENANTS_AND_CLUSTERS,
        **_NAMESPACES,
        **_TOPIC_ROUTES,
        **_BROKER_ROUTES,
        **_CONTROL,
        **_PARTITION_ROUTES,
        **_PROCESS,
    }
)
