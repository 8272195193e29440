"""Responses and errors of the HTTP API, and what only the broker process serves.

Responses: JSON, and one status per kind of error.

Responses: JSON, and one status per kind of error.

An error's body is ``{"error": class name, "reason": text}``: Pulsar's clients read the reason;
brokers and the command line also read the name.
"""

import itertools
import logging
import math
import re
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter

from broker_ctl import codec, errors
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import DOMAINS
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    BundleBusy,
    BundleGone,
    ClusterExists,
    ClusterInUse,
    ClusterMissing,
    ClusterNotAllowed,
    DualAuthorizationRequired,
    Fenced,
    ForeignNamespace,
    InvalidName,
    InvalidPolicy,
    InvalidReplicas,
    NamespaceExists,
    NamespaceMissing,
    OrderConflict,
    OwnershipError,
    PeerRefused,
    PlanMissing,
    PoliciesReadOnly,
    PolicyConflict,
    PolicyMissing,
    ReassignmentMissing,
    RolloutMissing,
    SessionError,
    SettingsError,
    StoreClosed,
    TenantExists,
    TenantMissing,
    TooLarge,
    TooManyRequests,
    TopicExists,
    TopicMissing,
)

log = logging.getLogger(__name__)

# Others: 503 where the same request may succeed later, here or at another broker, else 500.
_STATUS: Final[tuple[tuple[type[BrokerCtlError], int], ...]] = (
    (InvalidName, 412),
    (SettingsError, 412),
    (NamespaceMissing, 404),
    (NamespaceExists, 409),
    (TenantMissing, 404),
    (TenantExists, 409),
    (ClusterMissing, 404),
    (ClusterExists, 409),
    (ClusterNotAllowed, 403),
    (ClusterInUse, 412),
    (ForeignNamespace, 412),
    (TopicMissing, 404),
    (TopicExists, 409),
    (InvalidReplicas, 400),
    (ReassignmentMissing, 404),
    (InvalidPolicy, 400),
    (PoliciesReadOnly, 403),
    (PolicyMissing, 404),
    (PolicyConflict, 409),
    # The value is larger than a znode may be.
    (TooLarge, 413),
    (PlanMissing, 404),
    (RolloutMissing, 404),
    (OrderConflict, 409),
    (DualAuthorizationRequired, 403),
    (BundleGone, 412),
    # A retry is redirected to the new owner.
    (BundleBusy, 503),
    (TooManyRequests, 429),
)


_NO_CONTENT: Final = 204
_JSON: Final = "application/json"
# The session is being replaced, the daemon is shutting down, or a write's result is unknown: a
# client may retry, and must read before it writes.
_UNAVAILABLE: Final = (SessionError, StoreClosed, Ambiguous)
_RETRY_AFTER_S: Final = "1"
_MAX_PHRASE_LENGTH: Final = 256
# A browser takes the body for what its content type says, and for nothing else.
_CONTENT_TYPE_OPTIONS: Final = "X-Content-Type-Options"
_NO_SNIFFING: Final = "nosniff"
_CLOCK: Final = SystemClock()
# All but the tabulator; they could end a header, or the head (RFC 9110, 5.5).
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ApiError(BrokerCtlError):
    """An error of the API itself, with its status."""

    def __init__(self, status: int, reason: str, *, kind: str = "Refusal") -> None:
        super().__init__(reason)
        self.status = status
        self.kind = kind


class ApiResponse(web.Response):
    """A response whose body is complete when it is sent.

    aiohttp's own also supports chunks, compression and cookies, which costs a quarter of a warm
    lookup, and names its version in each response. A response with a body needs its content type.

    Attributes:
        keep_alive: whether the connection stays open after the response.
    """

    # Replaces aiohttp's property, which reads what only its own `prepare` writes.
    keep_alive: bool = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Send the whole response."""
        writer = request.writer
        await writer.write(self.rendered(request))
        await writer.drain()
        return writer

    def rendered(self, request: web.BaseRequest) -> bytes:
        """All bytes of the response.

        Raises:
            ValueError: a header has control characters.
        """
        body, headers, version = self.body, self.headers, request.version
        assert body is None or isinstance(body, bytes)
        body, is_head = body or b"", request.method == hdrs.METH_HEAD
        if body or not (is_head or self.status == _NO_CONTENT):
            headers[hdrs.CONTENT_LENGTH] = str(len(body))
        headers[hdrs.DATE] = _date(_CLOCK.wall_ms() // 1000)
        headers[_CONTENT_TYPE_OPTIONS] = _NO_SNIFFING
        # The default of each HTTP version needs no header.
        is_kept = self.keep_alive = request.keep_alive
        if is_kept == (version == HttpVersion10):
            headers[hdrs.CONNECTION] = "keep-alive" if is_kept else "close"
        lines = [f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        text = "".join(lines)
        if not text.isprintable() and _CONTROLS.search(text):
            raise ValueError("a header of a response has control characters")
        lines += ["", ""]
        head = "\r\n".join(lines).encode()
        return head if is_head else head + body

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` sent the body."""


class EventStream(web.StreamResponse):
    """Server-sent events, which go on after the head was sent."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, hdrs.CACHE_CONTROL: "no-store"})
        self.content_type = "text/event-stream"

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        # aiohttp names itself, and its version.
        del self.headers[hdrs.SERVER]
        self.headers[_CONTENT_TYPE_OPTIONS] = _NO_SNIFFING


class RepeatedResponse(ApiResponse):
    """A response that many requests get, of which `may_share` says so; nobody changes it.

    Its bytes change with the date only, once a second.
    """

    keep_alive = True
    _text = b""
    _made_s = -1

    def rendered(self, request: web.BaseRequest) -> bytes:
        """See `ApiResponse.rendered`."""
        now_s = _CLOCK.wall_ms() // 1000
        if now_s != self._made_s:
            self._text, self._made_s = super().rendered(request), now_s
        return self._text


class RepeatedRedirect(ApiResponse):
    """A redirect that many requests get, as `RepeatedResponse`; the path is that of each request.

    Args:
        address: of the other broker.
        query: with its question mark; empty: none.
    """

    keep_alive = True
    _line = _rest = ""
    _made_s = -1

    def __init__(self, address: str, query: str) -> None:
        super().__init__(status=HTTPStatus.TEMPORARY_REDIRECT)
        self._address = address
        self._query = query

    def rendered(self, request: web.BaseRequest) -> bytes:
        """See `ApiResponse.rendered`."""
        now_s = _CLOCK.wall_ms() // 1000
        if now_s != self._made_s:
            # All of it but the location, which is the first header.
            whole = super().rendered(request).decode()
            self._line, _, self._rest = whole.partition("\r\n")
            self._made_s = now_s
        location = f"{self._address}{request.rel_url.raw_path}{self._query}"
        if not location.isprintable() and _CONTROLS.search(location):
            raise ValueError("a header of a response has control characters")
        return f"{self._line}\r\nLocation: {location}\r\n{self._rest}".encode()


@lru_cache(maxsize=1024)
def repeated_redirect(address: str, query: str) -> RepeatedRedirect:
    """The redirect to an address, for requests of which `may_share` says so."""
    return RepeatedRedirect(address, query)


def may_share(request: web.BaseRequest) -> bool:
    """Whether its responses have the same head as those of other requests."""
    is_get = request.method == hdrs.METH_GET
    return is_get and request.keep_alive and request.version == HttpVersion11


@lru_cache(maxsize=1)
def _date(wall_s: int) -> str:
    """The Date header's value at ``wall_s`` seconds since 1970."""
    return formatdate(wall_s, usegmt=True)


def json(value: Any, status: int = 200) -> ApiResponse:
    """A JSON response."""
    return encoded_json(codec.encode(value), status)


def encoded_json(body: bytes, status: int = 200) -> ApiResponse:
    """A response of JSON that is encoded already."""
    return ApiResponse(body=body, status=status, content_type=_JSON)


def repeated_json(body: bytes) -> RepeatedResponse:
    """As `encoded_json`, for the requests that `may_share` it."""
    return RepeatedResponse(body=body, content_type=_JSON)


def text(body: str, status: int = 200) -> ApiResponse:
    """A response of plain text."""
    return ApiResponse(text=body, status=status)


def no_content() -> ApiResponse:
    """Done: 204."""
    return ApiResponse(status=_NO_CONTENT)


def done() -> ApiResponse:
    """Done: 200 with an empty body, where Pulsar has that."""
    return ApiResponse(body=b"")


def error(status: int, kind: str, reason: str) -> ApiResponse:
    """The response for an error."""
    response = json({"error": kind, "reason": reason}, status)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers[hdrs.RETRY_AFTER] = _RETRY_AFTER_S
    # Clients of HTTP lookups show only the status line.
    response.set_status(status, _phrase(reason))
    return response


def _phrase(reason: str) -> str:
    """A reason for the status line: printable ASCII of bounded length."""
    line = "".join(char if " " <= char <= "~" else " " for char in reason[:_MAX_PHRASE_LENGTH])
    return line.strip() or "rejected"


def from_error(met: BrokerCtlError) -> ApiResponse:
    """The response for a request that failed with this error."""
    if isinstance(met, ApiError):
        return error(met.status, met.kind, str(met))
    kind = met.kind if isinstance(met, PeerRefused) else type(met).__name__
    response = error(_status_of(met), kind, str(met))
    if isinstance(met, TooManyRequests):
        response.headers[hdrs.RETRY_AFTER] = str(max(1, math.ceil(met.wait_s)))
    return response


def _status_of(met: BrokerCtlError) -> int:
    for kind, status in _STATUS:
        if isinstance(met, kind):
            return status
    if _is_unavailable(_kind_of(met)):
        return 503
    return 409 if isinstance(met, OwnershipError | Fenced | PeerRefused) else 500


def _kind_of(met: BrokerCtlError) -> type[BrokerCtlError]:
    """The error's class, or the class that another broker reported."""
    reported = getattr(errors, met.kind, None) if isinstance(met, PeerRefused) else None
    if isinstance(reported, type) and issubclass(reported, BrokerCtlError):
        return reported
    return type(met)


def _is_unavailable(kind: type[BrokerCtlError]) -> bool:
    return kind.can_retry or issubclass(kind, _UNAVAILABLE)


# Turns exceptions into responses, in this one place.


_UNKNOWN_ROUTE: Final = "unknown"


class ErrorRenderer:
    """Renders exceptions. Tracebacks of internal errors go to the log, under a number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def render(self, request: web.Request, met: Exception) -> web.Response:
        """The response for an exception.

        Raises:
            web.HTTPException: it is a response already, with a status below 400.
        """
        if isinstance(met, BrokerCtlError):
            return from_error(met)
        if isinstance(met, web.HTTPException):
            return _from_http_exception(met)
        number = next(self._numbers)
        log.error(
            "internal error %d: %s %r failed",
            number,
            request.method,
            request.raw_path,
            exc_info=met,
        )
        reason = f"internal error; the log of this broker has it as internal error {number}"
        return error(500, "InternalError", reason)


def _from_http_exception(met: web.HTTPException) -> web.Response:
    """Aiohttp's own errors: no such path, another method, a body that is too long."""
    if met.status < 400:
        raise met
    response = error(met.status, type(met).__name__, met.reason)
    if "Allow" in met.headers:
        response.headers["Allow"] = met.headers["Allow"]
    return response


def route_of(request: web.Request) -> str:
    """The pattern that the path matched; ``unknown`` where it matched none."""
    resource = request.match_info.route.resource
    return _UNKNOWN_ROUTE if resource is None else resource.canonical


# Parts of Pulsar's admin API that only the broker process serves: messages, and its policies.
#
# A 404 would mean that a topic has no schema or no statistics, and clients would then read
# messages without their schema. So the status is 501, and the reason names the broker to use.


_ADMIN: Final = "/admin/"
# First path segment after /admin/v2, and what the paths below it are about.
_SUBJECTS: Final = {
    **dict.fromkeys(DOMAINS, "A topic's content, with its subscriptions, belongs"),
    "broker-stats": "Statistics of memory and storage belong",
    "brokers": "This operation belongs",
    "namespaces": "A policy of messages, or a namespace's content, belongs",
    "schemas": "Schemas belong",
}


def explain_unserved(path: str) -> ApiError | None:
    """501 for a path that only the broker process serves; None for any other path."""
    if not path.startswith(_ADMIN):
        return None
    segments = path.split("/")
    # /admin/v2/SUBJECT, or /admin/SUBJECT of Pulsar 1.
    subject = next((_SUBJECTS[name] for name in segments[2:4] if name in _SUBJECTS), "This belongs")
    return ApiError(
        501,
        f"{subject} to the broker process: its daemon does not serve it; use the broker that a "
        "lookup of the topic returns",
        kind="NotServedHere",
    )
