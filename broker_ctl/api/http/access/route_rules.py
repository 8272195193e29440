"""The rule of each route: a request is judged by the route that it matched, not by its spelling.

A route without a rule is for super users. `tests/api/http/access/test_route_rules.py` fails for
such a route, and for a rule without a route.
"""

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.rules import (
    Access,
    Exempt,
    Rule,
    broker_resource_in,
    cluster_in,
    namespace_resource_in,
    tenant_resource_in,
    topic_resource_in,
)
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.security.authorization.resources import Resource, ResourceKind

# As in the dispatcher: what matched no route.
_UNKNOWN: Final = "unknown"

_RESOURCES: Final[Mapping[ResourceKind, Callable[[web.Request], Resource]]] = {
    ResourceKind.CLUSTER: cluster_in,
    ResourceKind.BROKER: broker_resource_in,
    ResourceKind.TENANT: tenant_resource_in,
    ResourceKind.NAMESPACE: namespace_resource_in,
    ResourceKind.TOPIC: topic_resource_in,
}

_EXEMPT: Final[Mapping[Exempt, str]] = {
    Exempt.HEALTH: """
        GET /livez
        GET /readyz
        GET /admin/v2/brokers/health
        GET /admin/v2/brokers/ready
        GET /status.html
    """,
    Exempt.METRICS: "GET /metrics",
    Exempt.DATA_PLANE: "GET /dataplane/v1/authority",
    Exempt.CONSOLE: """
        GET /ui
        GET /ui/
        GET /ui/bundles
        GET /ui/brokers/{broker}
        GET /ui/plan
        GET /ui/history
        GET /ui/drains
        GET /ui/partitions
        GET /ui/policies
        GET /ui/settings
        GET /ui/live
        GET /ui/live/bundles
        GET /ui/live/brokers/{broker}
        GET /ui/live/plan
        GET /ui/live/history
        GET /ui/live/drains
        GET /ui/live/partitions
        GET /ui/act
        POST /ui/act
        GET /ui/sign-in
        POST /ui/sign-in
        POST /ui/sign-out
        GET /ui/glossary
        GET /ui/static/{name}
    """,
    Exempt.AUTHENTICATED: """
        GET /openapi.json
        GET /lookup/v2/topic/{domain}/{tenant}/{cluster}/{namespace}/{topic}
        GET /lookup/v2/destination/{name}
    """,
}

_RULES: Final[Mapping[tuple[Operation, ResourceKind], str]] = {
    (Operation.LOOKUP, ResourceKind.TOPIC): """
        GET /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}
        GET /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions
    """,
    (Operation.LOOKUP, ResourceKind.NAMESPACE): """
        GET /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle
        GET /admin/v2/namespaces/{tenant}/{namespace}/bundles
        GET /admin/v2/namespaces/{tenant}/{namespace}/topics
        GET /admin/v2/{domain}/{tenant}/{namespace}
        GET /admin/v2/{domain}/{tenant}/{namespace}/{bundle}
        GET /admin/v2/{domain}/{tenant}/{namespace}/partitioned
    """,
    (Operation.LOOKUP, ResourceKind.CLUSTER): """
        GET /partitions/v1/leader/{topic}
        GET /partitions/v1/leader/{topic}/{partition}
    """,
    (Operation.READ, ResourceKind.CLUSTER): """
        GET /admin/v2/brokers
        GET /admin/v2/brokers/leaderBroker
        GET /admin/v2/brokers/version
        GET /admin/v2/brokers/backlog-quota-check
        GET /admin/v2/brokers/{cluster}
        GET /admin/v2/brokers/{cluster}/{broker}/ownedNamespaces
        GET /admin/v2/brokers/configuration
        GET /admin/v2/brokers/configuration/values
        GET /admin/v2/brokers/configuration/runtime
        GET /admin/v2/broker-stats/load-report
        GET /admin/v2/broker-stats/topics
        GET /admin/v2/clusters
        GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies
        GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers
        GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers/{broker}
        GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}
        GET /admin/v2/clusters/{cluster}/failureDomains
        GET /admin/v2/clusters/{cluster}/failureDomains/{domain}
        GET /admin/v2/namespaces/{cluster}/antiAffinity/{group}
        GET /admin/namespaces/{cluster}/antiAffinity/{group}
        GET /admin/v2/resource-quotas
    """,
    (Operation.READ, ResourceKind.TENANT): "GET /admin/v2/namespaces/{tenant}",
    (Operation.READ, ResourceKind.NAMESPACE): """
        GET /admin/v2/namespaces/{tenant}/{namespace}/replication
        GET /admin/v2/namespaces/{tenant}/{namespace}/antiAffinity
        GET /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}
    """,
    (Operation.READ_SENSITIVE, ResourceKind.CLUSTER): """
        GET /admin/v2/tenants
        GET /admin/v2/clusters/{cluster}
        GET /admin/v2/clusters/{cluster}/peers
        GET /admin/v2/brokers/internal-configuration
        GET /control/v1/stacks
    """,
    (Operation.READ_SENSITIVE, ResourceKind.NAMESPACE): """
        GET /admin/v2/namespaces/{tenant}/{namespace}
        GET /admin/v2/namespaces/{tenant}/{namespace}/permissions
    """,
    (Operation.READ_SENSITIVE, ResourceKind.TENANT): "GET /admin/v2/tenants/{tenant}",
    (Operation.MONITOR, ResourceKind.CLUSTER): """
        GET /control/v1/status
        GET /control/v1/owners
        GET /control/v1/topics/{tenant}/{namespace}
        GET /control/v1/cluster
        GET /control/v1/explain
        GET /control/v1/advice/size
        GET /control/v1/pause
        GET /control/v1/drains
        GET /control/v1/plan
        GET /control/v1/plans
        GET /control/v1/plans/{plan}
        GET /control/v1/proposals
        GET /control/v1/rollout
        GET /control/v1/rollout/plan
        GET /control/v1/history
        GET /control/v1/imbalance
        GET /control/v1/partitions/controller
        GET /control/v1/partitions/transitions
        GET /control/v1/partitions/explain
        GET /control/v1/partitions/topics
        GET /control/v1/partitions/topics/{topic}
        GET /control/v1/partitions/reassignments
    """,
    (Operation.MOVE, ResourceKind.NAMESPACE): """
        PUT /admin/v2/namespaces/{tenant}/{namespace}/unload
        PUT /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unload
    """,
    (Operation.MOVE, ResourceKind.TOPIC): (
        "PUT /admin/v2/{domain}/{tenant}/{namespace}/{topic}/unload"
    ),
    (Operation.MOVE, ResourceKind.CLUSTER): """
        PUT /control/v1/partitions/reassignments
        DELETE /control/v1/partitions/reassignments
        POST /control/v1/partitions/reassignments/throttle
        POST /control/v1/partitions/elections
    """,
    (Operation.SPLIT, ResourceKind.NAMESPACE): """
        PUT /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/split
        PUT /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/merge
    """,
    (Operation.PAUSE, ResourceKind.CLUSTER): """
        PUT /control/v1/pause
        DELETE /control/v1/pause
    """,
    (Operation.DRAIN, ResourceKind.BROKER): """
        PUT /control/v1/drains/{broker}
        DELETE /control/v1/drains/{broker}
        PUT /control/v1/rollout/brokers/{broker}
    """,
    (Operation.DRAIN, ResourceKind.CLUSTER): """
        PUT /control/v1/rollout
        POST /control/v1/rollout/{act}
    """,
    (Operation.PLAN, ResourceKind.CLUSTER): """
        POST /control/v1/plans
        POST /control/v1/plans/{plan}
        DELETE /control/v1/plans/{plan}
        POST /control/v1/partitions/plan
    """,
    (Operation.APPROVE, ResourceKind.CLUSTER): "PUT /control/v1/plans/{plan}",
    (Operation.CONFIGURE, ResourceKind.CLUSTER): """
        PUT /admin/v2/clusters/{cluster}
        POST /admin/v2/clusters/{cluster}
        POST /admin/v2/clusters/{cluster}/peers
        POST /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}
        POST /admin/v2/clusters/{cluster}/failureDomains/{domain}
        POST /admin/v2/brokers/configuration/{name}/{value}
        DELETE /admin/v2/brokers/configuration/{name}
        POST /admin/v2/resource-quotas
        DELETE /admin/v2/resource-quotas
        POST /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}
        DELETE /admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}
        PUT /control/v1/partitions/topics/{topic}
        POST /control/v1/partitions/topics/{topic}
        POST /control/v1/partitions/topics/{topic}/rules
        PUT /control/v1/partitions/topics/{topic}/topic-id
    """,
    (Operation.CONFIGURE, ResourceKind.TENANT): """
        PUT /admin/v2/tenants/{tenant}
        POST /admin/v2/tenants/{tenant}
    """,
    (Operation.CONFIGURE, ResourceKind.NAMESPACE): """
        PUT /admin/v2/namespaces/{tenant}/{namespace}
        POST /admin/v2/namespaces/{tenant}/{namespace}/replication
        POST /admin/v2/namespaces/{tenant}/{namespace}/antiAffinity
        DELETE /admin/v2/namespaces/{tenant}/{namespace}/antiAffinity
    """,
    (Operation.CONFIGURE, ResourceKind.TOPIC): """
        PUT /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions
        POST /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions
    """,
    (Operation.DELETE, ResourceKind.CLUSTER): """
        DELETE /admin/v2/clusters/{cluster}
        DELETE /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}
        DELETE /admin/v2/clusters/{cluster}/failureDomains/{domain}
        DELETE /control/v1/partitions/topics/{topic}
    """,
    (Operation.DELETE, ResourceKind.TENANT): "DELETE /admin/v2/tenants/{tenant}",
    (Operation.DELETE, ResourceKind.NAMESPACE): (
        "DELETE /admin/v2/namespaces/{tenant}/{namespace}"
    ),
    (Operation.DELETE, ResourceKind.TOPIC): (
        "DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions"
    ),
    (Operation.COMMAND, ResourceKind.CLUSTER): """
        POST /control/v1/{verb}
        POST /control/v1/instructions
        POST /control/v1/controlled-shutdown
    """,
}

# Method and pattern of the path, as aiohttp writes it without the expressions of its variables.
Route = tuple[str, str]


def _routes_of(lines: str) -> list[Route]:
    return [(method, path) for method, path in map(str.split, lines.strip().splitlines())]


_RULE_OF: Final = {
    (operation, kind): Rule(operation, _RESOURCES[kind]) for operation, kind in _RULES
}
TOPIC_LOOKUP: Final = _RULE_OF[Operation.LOOKUP, ResourceKind.TOPIC]
ROUTE_RULES: Final[Mapping[Route, Access]] = {
    **{route: exempt for exempt, lines in _EXEMPT.items() for route in _routes_of(lines)},
    **{route: _RULE_OF[key] for key, lines in _RULES.items() for route in _routes_of(lines)},
}
_WITHOUT_RULE: Final = Rule(Operation.CONFIGURE, cluster_in)


def access_of(route: str, method: str) -> Access:
    """What a request needs, by its route; where it matched none, only to be authenticated."""
    if route == _UNKNOWN:
        return Exempt.AUTHENTICATED
    # aiohttp answers HEAD with the handler of GET.
    key = ("GET" if method == "HEAD" else method, route)
    return ROUTE_RULES.get(key, _WITHOUT_RULE)


def resource_kind_of(rule: Rule) -> ResourceKind:
    """Of what kind the resource is that the path of a route names."""
    return next(kind for kind, find in _RESOURCES.items() if find is rule.resource_of)
