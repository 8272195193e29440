"""Rules of access: what each route demands, and on which port it is served."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from aiohttp import web

from broker_ctl.api.http.request_params import namespace_in, topic_in
from broker_ctl.api.http.responses import ApiError, route_of
from broker_ctl.api.http.routing import RouteTable
from broker_ctl.security import authorization
from broker_ctl.security.authorization import Operation, Resource, ResourceKind
from broker_ctl.settings.publishing import KEYS, HttpPort, PortRole

# What a request needs: an operation on a resource, or one of the exemptions.


class Exempt(Enum):
    """Routes that need no operation.

    Attributes:
        HEALTH: open to everybody.
        METRICS: open, or to every authenticated role with ``authenticateMetricsEndpoint``.
        AUTHENTICATED: for every authenticated role: the response depends on nothing.
        DATA_PLANE: for the broker process, by the secret that it shares with this daemon.
        CONSOLE: the frame of the console, open to everybody: what it shows, it asks for with the
            rights of its client.
    """

    HEALTH = auto()
    METRICS = auto()
    AUTHENTICATED = auto()
    DATA_PLANE = auto()
    CONSOLE = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """The operation of a route, and the resource that its path names.

    Attributes:
        resource_of: raises InvalidName where the path names none.
    """

    operation: Operation
    resource_of: Callable[[web.Request], Resource]


Access = Rule | Exempt


def cluster_in(_: web.Request) -> Resource:
    """The cluster."""
    return authorization.CLUSTER


def broker_resource_in(request: web.Request) -> Resource:
    """The broker in the path."""
    return Resource.of_broker(request.match_info["broker"])


def tenant_resource_in(request: web.Request) -> Resource:
    """The tenant in the path."""
    return Resource.of_tenant(request.match_info["tenant"])


def namespace_resource_in(request: web.Request) -> Resource:
    """The namespace in the path."""
    return Resource.of_namespace(namespace_in(request))


def topic_resource_in(request: web.Request) -> Resource:
    """The topic in the path."""
    return Resource.of_topic(topic_in(request))


# The rule of each route: a request is judged by the route that it matched, not by its spelling.
#
# A route without a rule is for super users. `tests/api/http/access/test_route_rules.py` fails for
# such a route, and for a rule without a route.


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


# Which of its ports serves a route, so that a firewall can separate clients from operators.
#
# Health is served at each port. Where there are admin ports, the public ones serve what clients
# need: lookups, and metrics unless these have ports of their own.


_ALL: Final = frozenset(PortRole)
_CLIENTS: Final = frozenset({PortRole.PUBLIC, PortRole.ADMIN})
_OF_OPERATORS: Final = frozenset({Exempt.DATA_PLANE, Exempt.CONSOLE})


@dataclass(frozen=True, slots=True)
class PortFilter:
    """What the ports of one role serve.

    Attributes:
        elsewhere: routes that other ports serve, and the reason of their refusal here.
    """

    role: PortRole
    elsewhere: Mapping[web.AbstractRoute, str]

    def refuses(self, route: web.AbstractRoute) -> bool:
        """Whether a route is served at other ports only."""
        return route in self.elsewhere

    def refusal_of(self, route: web.AbstractRoute) -> ApiError | None:
        """403 for a route of another port; None: it is served here."""
        reason = self.elsewhere.get(route)
        return None if reason is None else ApiError(403, reason, kind="OtherPort")


def is_of_client(request: web.Request) -> bool:
    """Whether a request is one that the public port serves in any case."""
    return _is_for_clients(access_of(route_of(request), request.method))


def routes_of_ports(routes: RouteTable, ports: Collection[HttpPort]) -> list[PortFilter]:
    """What each of the ports serves, and where it says that the rest is served."""
    by_role = {port.role: port for port in ports}
    found: dict[PortRole, dict[web.AbstractRoute, str]] = {role: {} for role in by_role}
    for route in routes:
        assert route.resource is not None, "only routes of a system without resources have none"
        roles = _roles_of(access_of(route.resource.canonical, route.method), by_role)
        for role, port in by_role.items():
            if role not in roles:
                there = next(by_role[other] for other in PortRole if other in roles & set(by_role))
                found[role][route] = _explain(port, there)
    return [PortFilter(role, elsewhere) for role, elsewhere in found.items()]


def _is_for_clients(access: Access) -> bool:
    if isinstance(access, Exempt):
        return access not in _OF_OPERATORS
    return access.operation is Operation.LOOKUP


def _roles_of(access: Access, present: Collection[PortRole]) -> frozenset[PortRole]:
    """The ports that serve a route."""
    if access is Exempt.HEALTH:
        return _ALL
    if access is Exempt.METRICS:
        return frozenset({PortRole.METRICS}) if PortRole.METRICS in present else _CLIENTS
    if _is_for_clients(access) or PortRole.ADMIN not in present:
        return _CLIENTS
    return frozenset({PortRole.ADMIN})


def _explain(here: HttpPort, there: HttpPort) -> str:
    keys = KEYS[there.role]
    named = ((there.port, keys.port), (there.port_tls, keys.port_tls))
    others = " or ".join(f"{number} ({key})" for number, key in named if number is not None)
    served = "metrics and health only"
    if here.role is not PortRole.METRICS:
        served = "no administration" if there.role is PortRole.ADMIN else "no metrics"
    return f"this port serves {served}: use port {others} of this broker"
