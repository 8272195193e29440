"""Answers and refusals: JSON, and one status per kind of error.

An error's body is ``{"error": class name, "reason": text}``: Pulsar's clients read the reason,
brokers and the command line the name too.
"""

import sys
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from aiohttp import HttpVersion10, hdrs, web
from aiohttp.abc import AbstractStreamWriter

from broker_ctl import codec, errors
from broker_ctl.clock import SystemClock
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    BundleBusy,
    BundleGone,
    ClusterExists,
    ClusterInUse,
    ClusterMissing,
    ClusterNotAllowed,
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
    SessionError,
    SettingsError,
    StoreClosed,
    TenantExists,
    TenantMissing,
    TooLarge,
    TopicExists,
    TopicMissing,
)

# What is not listed: 503 where the same request may succeed later, here or at another broker, else
# 500.
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
    # What is to be written fits into no znode.
    (TooLarge, 413),
    (PlanMissing, 404),
    (OrderConflict, 409),
    (BundleGone, 412),
    # Who asks again is sent to the winner.
    (BundleBusy, 503),
)


_NO_CONTENT: Final = 204
# The session is being replaced, the daemon is on its way down, or what became of a write is not
# known: whoever asks again, and reads before it writes, is served.
_UNAVAILABLE: Final = (SessionError, StoreClosed, Ambiguous)
_RETRY_AFTER_S: Final = "1"
_PHRASE_LETTERS: Final = 256
# As aiohttp names itself.
_SERVER: Final = (
    f"Python/{sys.version_info.major}.{sys.version_info.minor} aiohttp/{aiohttp.__version__}"
)
_CLOCK: Final = SystemClock()


class ApiError(BrokerCtlError):
    """What the surface itself says no to, with its status."""

    def __init__(self, status: int, reason: str, *, kind: str = "Refusal") -> None:
        super().__init__(reason)
        self.status = status
        self.kind = kind


class ApiResponse(web.Response):
    """Bytes that are all there when it is sent.

    aiohttp's own looks for what an answer may be besides: in parts, compressed, with cookies. That
    takes a quarter as long as finding an owner. Whoever gives a body says its type.

    Attributes:
        keep_alive: whether the connection stays open, once it is sent.
    """

    # In the place of aiohttp's property, which reads what only its own `prepare` writes.
    keep_alive: bool = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Send it all."""
        body, headers, version, writer = self.body, self.headers, request.version, request.writer
        assert body is None or isinstance(body, bytes)
        body, is_head = body or b"", request.method == hdrs.METH_HEAD
        if body or not (is_head or self.status == _NO_CONTENT):
            headers[hdrs.CONTENT_LENGTH] = str(len(body))
        headers[hdrs.DATE] = _date(_CLOCK.wall_ms() // 1000)
        headers[hdrs.SERVER] = _SERVER
        # What a version of HTTP does unless it is told otherwise is not said.
        is_kept = self.keep_alive = request.keep_alive
        if is_kept == (version == HttpVersion10):
            headers[hdrs.CONNECTION] = "keep-alive" if is_kept else "close"
        first_line = f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}"
        await writer.write_headers(first_line, headers)
        await writer.write_eof(b"" if is_head else body)
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        """It is sent already."""


@lru_cache(maxsize=1)
def _date(wall_s: int) -> str:
    """For the header, at so many seconds since 1970."""
    return formatdate(wall_s, usegmt=True)


def json(value: Any, status: int = 200) -> ApiResponse:
    """A JSON answer."""
    return encoded(codec.encode(value), status)


def encoded(body: bytes, status: int = 200) -> ApiResponse:
    """A JSON answer that is encoded already."""
    return ApiResponse(body=body, status=status, content_type="application/json")


def no_content() -> ApiResponse:
    """Done."""
    return ApiResponse(status=_NO_CONTENT)


def done() -> ApiResponse:
    """Done, where Pulsar says 200 and nothing else."""
    return ApiResponse(body=b"")


def error(status: int, kind: str, reason: str) -> ApiResponse:
    """An error's answer."""
    answer = json({"error": kind, "reason": reason}, status)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers[hdrs.RETRY_AFTER] = _RETRY_AFTER_S
    # Clients of lookups over HTTP show nothing but the status line.
    answer.set_status(status, _phrase(reason))
    return answer


def _phrase(reason: str) -> str:
    """What of a reason goes into the status line: letters that any client reads, not too many."""
    line = "".join(letter if " " <= letter <= "~" else " " for letter in reason[:_PHRASE_LETTERS])
    return line.strip() or "refused"


def from_error(met: BrokerCtlError) -> ApiResponse:
    """The answer to a request that met this error."""
    if isinstance(met, ApiError):
        return error(met.status, met.kind, str(met))
    kind = met.kind if isinstance(met, PeerRefused) else type(met).__name__
    return error(_status_of(met), kind, str(met))


def _status_of(met: BrokerCtlError) -> int:
    for kind, status in _STATUS:
        if isinstance(met, kind):
            return status
    if _is_unavailable(_kind_of(met)):
        return 503
    return 409 if isinstance(met, OwnershipError | Fenced | PeerRefused) else 500


def _kind_of(met: BrokerCtlError) -> type[BrokerCtlError]:
    """Its class, or the one that another broker has met and told of."""
    reported = getattr(errors, met.kind, None) if isinstance(met, PeerRefused) else None
    if isinstance(reported, type) and issubclass(reported, BrokerCtlError):
        return reported
    return type(met)


def _is_unavailable(kind: type[BrokerCtlError]) -> bool:
    return kind.can_retry or issubclass(kind, _UNAVAILABLE)
