"""Who may ask for what.

Reads of lookup, admin, metrics and health are open. Whatever changes something, and all of
``/control``, is for super users where authentication is on. A broker process asks for its authority
with the secret that it shares with this daemon.
"""

import hmac
from enum import Enum, auto
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from broker_ctl.surface import answers
from broker_ctl.surface.credentials import Credentials
from broker_ctl.surface.errors import route_of

_READS: Final = frozenset({"GET", "HEAD"})
_SCHEME: Final = "bearer"


class Access(Enum):
    """Who may."""

    OPEN = auto()
    SUPER_USER = auto()
    DATA_PLANE = auto()


def access_of(route: str, method: str) -> Access:
    """Judged by the route that matched, so that no spelling of a path gets around it."""
    if route.startswith("/dataplane/"):
        return Access.DATA_PLANE
    if route.startswith("/control/") or method not in _READS:
        return Access.SUPER_USER
    return Access.OPEN


def access_middleware(credentials: Credentials | None, dataplane_secret: str | None) -> Middleware:
    """401 without a known token, 403 for a role that may not; what is None asks for nothing."""
    secret = None if dataplane_secret is None else dataplane_secret.encode()

    def refusal(request: web.Request) -> web.Response | None:
        match access_of(route_of(request), request.method):
            case Access.DATA_PLANE if secret is not None:
                return None if hmac.compare_digest(_token(request), secret) else _unauthorized()
            case Access.SUPER_USER if credentials is not None:
                role = credentials.role_of(_token(request))
                if role is None:
                    return _unauthorized()
                if not credentials.is_super_user(role):
                    return answers.error(403, "Forbidden", f"role {role} is no super user")
        return None

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        return refusal(request) or await handler(request)

    return admit


def _token(request: web.Request) -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != _SCHEME:
        return b""
    # Undecodable bytes of a header arrive as surrogates.
    return token.strip().encode(errors="surrogateescape")


def _unauthorized() -> web.Response:
    refused = answers.error(401, "Unauthorized", "a known bearer token is wanted")
    refused.headers["WWW-Authenticate"] = "Bearer"
    return refused
