"""Which of its ports serves a route, so that a firewall can separate clients from operators.

Health is served at each port. Where there are admin ports, the public ones serve what clients need:
lookups, and metrics unless these have ports of their own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.route_rules import access_of
from broker_ctl.api.http.access.rules import Access, Exempt
from broker_ctl.api.http.error_responses import route_of
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import RouteTable
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.settings.http_ports import KEYS, HttpPort, PortRole

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
