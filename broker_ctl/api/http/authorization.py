"""Who may ask for what.

Reads of lookup, admin, metrics and health are open, but for those of tenants, clusters and
stores, which name roles and may hold a client's credentials. They, as in Pulsar, whatever changes
something, and all of ``/control``, are for super users where authentication is on. A broker process
asks for its authority with the secret that it shares with this daemon.
"""

import hmac
from enum import Enum, auto
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.credentials import Credentials
from broker_ctl.api.http.rejected_requests import RejectedRequests
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.directives import MOST_WHO

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
_ROLE: Final = web.RequestKey("role", str)
_SAID: Final = web.RequestKey("said", str)


class Access(Enum):
    """Who may."""

    OPEN = auto()
    READER = auto()
    SUPER_USER = auto()
    DATA_PLANE = auto()


def access_of(route: str, method: str) -> Access:
    """Judged by the route that matched, so that no spelling of a path gets around it."""
    if route.startswith("/dataplane/"):
        return Access.DATA_PLANE
    if route in _GUARDED_READS or method not in _READS:
        return Access.SUPER_USER
    if route.startswith("/control/"):
        return Access.READER
    return Access.OPEN


class Authorizer:
    """401 without a known token, 403 for a role that may not; what is None asks for nothing."""

    def __init__(
        self, credentials: Credentials | None, dataplane_secret: str | None, clock: Clock
    ) -> None:
        self._credentials = credentials
        self._turned_away = RejectedRequests(clock)
        self._secret = None if dataplane_secret is None else dataplane_secret.encode()

    def refusal(self, request: web.Request, route: str) -> web.Response | None:
        """Why a request for a route is not let in; the log has who was turned away."""
        refused = self._refusal(request, route)
        if refused is not None:
            self._turned_away.note(request, refused.status, role_of(request))
        return refused

    def _refusal(self, request: web.Request, route: str) -> web.Response | None:
        secret, credentials = self._secret, self._credentials
        match access_of(route, request.method):
            case Access.DATA_PLANE if secret is not None:
                return None if hmac.compare_digest(_token(request), secret) else _unauthorized()
            case (Access.SUPER_USER | Access.READER) as wanted if credentials is not None:
                role = credentials.role_of(_token(request))
                if role is None:
                    return _unauthorized()
                request[_ROLE] = role
                if wanted is Access.READER and not credentials.may_read(role):
                    reason = f"role {role} is neither in superUserRoles nor in readOnlyRoles"
                    return responses.error(403, "Forbidden", reason)
                if wanted is Access.SUPER_USER and not credentials.is_super_user(role):
                    return responses.error(403, "Forbidden", f"role {role} is no super user")
        return None


def who_in(request: web.Request) -> str:
    """Who ordered something: the token's role, or else who they say they are."""
    said: str = request.get(_SAID) or request.query.get("by", "")
    return role_of(request) or (said if said.isprintable() and len(said) <= MOST_WHO else "")


def note_said(request: web.Request, who: str) -> None:
    """Who a request's body says has ordered it."""
    request[_SAID] = who


def role_of(request: web.Request) -> str:
    """Of the token that let a request in; empty where no token was asked for."""
    role: str = request.get(_ROLE, "")
    return role


def _token(request: web.Request) -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != _SCHEME:
        return b""
    # Undecodable bytes of a header arrive as surrogates.
    return token.strip().encode(errors="surrogateescape")


def _unauthorized() -> web.Response:
    refused = responses.error(401, "Unauthorized", "a known bearer token is wanted")
    refused.headers["WWW-Authenticate"] = "Bearer"
    return refused
