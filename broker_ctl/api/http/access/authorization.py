"""Who may send which request.

Reads of lookup, admin, metrics and health are open, except those of tenants, clusters and stores:
they name roles and may hold a client's credentials. Where authentication is on, these reads, every
write (both as in Pulsar) and all of ``/control`` need a super user. A broker process reads its
authority with the secret that it shares with this daemon.
"""

import hmac
from enum import Enum, auto
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.peer_requests import PeerRequests, is_order
from broker_ctl.api.http.access.rejected_requests import RejectedRequests
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.directives import MOST_WHO
from broker_ctl.security.authentication import Authenticator, Evidence
from broker_ctl.security.principal import Principal, Proof
from broker_ctl.security.role_sets import RoleSets
from broker_ctl.security.signed_requests import SignatureRefused

_READS: Final = frozenset({"GET", "HEAD"})
_GUARDED_READS: Final = frozenset(
    {
        "/admin/v2/tenants",
        "/admin/v2/tenants/{tenant}",
        "/admin/v2/clusters/{cluster}",
        "/admin/v2/clusters/{cluster}/peers",
        "/admin/v2/brokers/internal-configuration",
    }
)
_SCHEME: Final = "bearer"
_PRINCIPAL: Final = web.RequestKey("principal", Principal)
_CLAIMED_OPERATOR: Final = web.RequestKey("claimed_operator", str)


class Access(Enum):
    """Who may send a request."""

    OPEN = auto()
    READER = auto()
    SUPER_USER = auto()
    DATA_PLANE = auto()


def access_of(route: str, method: str) -> Access:
    """The access a request needs; by its matched route, so that no spelling of a path evades it."""
    if route.startswith("/dataplane/"):
        return Access.DATA_PLANE
    if route in _GUARDED_READS or method not in _READS:
        return Access.SUPER_USER
    if route.startswith("/control/"):
        return Access.READER
    return Access.OPEN


class Authorizer:
    """401 without a known token, 403 for a role without the right.

    Args:
        authenticator: None: clients need not authenticate.
        roles: those with rights in the whole cluster.
        dataplane_secret: token of the broker process; None: it needs none.
        peers: judges the signed requests of other brokers; None: a signature proves nothing.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        roles: RoleSets,
        dataplane_secret: str | None,
        clock: Clock,
        peers: PeerRequests | None = None,
    ) -> None:
        self._peers = peers
        self._authenticator = authenticator
        self._roles = roles
        self._rejected = RejectedRequests(clock)
        self._secret = None if dataplane_secret is None else dataplane_secret.encode()

    def authorize(self, request: web.Request, route: str) -> web.Response | None:
        """The rejection of a request, which is also logged; None: the request is allowed."""
        try:
            refused = self._reject(request, route)
            principal = principal_of(request)
            who = "no known token" if principal is None else f"role {principal.role}"
        except SignatureRefused as met:
            refused, who = responses.error(401, "Unauthorized", str(met)), str(met)
        if refused is not None:
            self._rejected.record(request, refused.status, who)
        return refused

    def _reject(self, request: web.Request, route: str) -> web.Response | None:
        peers = self._peers
        if peers is not None:
            if peers.is_broker(request):
                request[_PRINCIPAL] = Principal(peers.role, Proof.SIGNED_REQUEST)
                return None if is_order(route, request.method) else _no_order(peers.role)
            if peers.needs_signature(route, request.method):
                reason = "only brokers send this, signed with the cluster's key"
                return responses.error(401, "Unauthorized", reason)
        return self._reject_client(request, route)

    def _reject_client(self, request: web.Request, route: str) -> web.Response | None:
        secret, authenticator = self._secret, self._authenticator
        match access_of(route, request.method):
            case Access.DATA_PLANE if secret is not None:
                return None if hmac.compare_digest(_token(request), secret) else _unauthorized()
            case (Access.SUPER_USER | Access.READER) as wanted if authenticator is not None:
                principal = authenticator.authenticate(Evidence(_token(request)))
                if principal is None:
                    return _unauthorized()
                request[_PRINCIPAL] = principal
                role = principal.role
                if wanted is Access.READER and not self._roles.may_read(role):
                    reason = f"role {role} is neither in superUserRoles nor in readOnlyRoles"
                    return responses.error(403, "Forbidden", reason)
                if wanted is Access.SUPER_USER and not self._roles.is_super_user(role):
                    return responses.error(403, "Forbidden", f"role {role} is not a super user")
        return None


def operator_of(request: web.Request) -> str:
    """Operator of a request: the role of its principal, or else the name that it claims."""
    claimed: str = request.get(_CLAIMED_OPERATOR) or request.query.get("by", "")
    principal = principal_of(request)
    if principal is not None:
        return principal.role
    return claimed if claimed.isprintable() and len(claimed) <= MOST_WHO else ""


def record_claimed_operator(request: web.Request, who: str) -> None:
    """Keep the operator that a request's body names."""
    request[_CLAIMED_OPERATOR] = who


def principal_of(request: web.Request) -> Principal | None:
    """Principal of a request; None: its route is open, or the client has proven no role."""
    found: Principal | None = request.get(_PRINCIPAL)
    return found


def _token(request: web.Request) -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != _SCHEME:
        return b""
    # Undecodable bytes of a header arrive as surrogates.
    return token.strip().encode(errors="surrogateescape")


def _no_order(role: str) -> web.Response:
    return responses.error(403, "Forbidden", f"role {role} may only send what brokers send")


def _unauthorized() -> web.Response:
    refused = responses.error(401, "Unauthorized", "a known bearer token is required")
    refused.headers["WWW-Authenticate"] = "Bearer"
    return refused
