"""Answers and refusals: JSON, and one status per kind of error.

An error's body is ``{"error": class name, "reason": text}``: Pulsar's clients read the reason,
brokers and the command line the name too.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl import codec, errors
from broker_ctl.errors import (
    BrokerCtlError,
    BundleBusy,
    BundleGone,
    Fenced,
    ForeignNamespace,
    InvalidName,
    InvalidPolicy,
    NamespaceExists,
    NamespaceMissing,
    OwnershipError,
    PeerRefused,
    PoliciesReadOnly,
    PolicyConflict,
    PolicyMissing,
    SettingsError,
    TopicMissing,
)

# What is not listed: 503 where the same request may succeed later, else 500.
_STATUS: Final[tuple[tuple[type[BrokerCtlError], int], ...]] = (
    (InvalidName, 412),
    (SettingsError, 412),
    (NamespaceMissing, 404),
    (NamespaceExists, 409),
    (ForeignNamespace, 412),
    (TopicMissing, 404),
    (InvalidPolicy, 400),
    (PoliciesReadOnly, 403),
    (PolicyMissing, 404),
    (PolicyConflict, 409),
    (BundleGone, 412),
    # Who asks again is sent to the winner.
    (BundleBusy, 503),
)


class Refusal(BrokerCtlError):
    """What the surface itself says no to, with its status."""

    def __init__(self, status: int, reason: str, *, kind: str = "Refusal") -> None:
        super().__init__(reason)
        self.status = status
        self.kind = kind


def json(value: Any, status: int = 200) -> web.Response:
    """A JSON answer."""
    return encoded(codec.encode(value), status)


def encoded(body: bytes, status: int = 200) -> web.Response:
    """A JSON answer that is encoded already."""
    return web.Response(body=body, status=status, content_type="application/json")


def no_content() -> web.Response:
    """Done."""
    return web.Response(status=204)


def error(status: int, kind: str, reason: str) -> web.Response:
    """An error's answer."""
    return json({"error": kind, "reason": reason}, status)


def of_error(met: BrokerCtlError) -> web.Response:
    """The answer to a request that met this error."""
    if isinstance(met, Refusal):
        return error(met.status, met.kind, str(met))
    kind = met.kind if isinstance(met, PeerRefused) else type(met).__name__
    return error(_status_of(met), kind, str(met))


def _status_of(met: BrokerCtlError) -> int:
    for kind, status in _STATUS:
        if isinstance(met, kind):
            return status
    if met.can_retry or (isinstance(met, PeerRefused) and _is_retriable(met.kind)):
        return 503
    return 409 if isinstance(met, OwnershipError | Fenced | PeerRefused) else 500


def _is_retriable(kind: str) -> bool:
    known = getattr(errors, kind, None)
    return isinstance(known, type) and issubclass(known, BrokerCtlError) and known.can_retry
