"""One event of the audit log."""

import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from broker_ctl.codec import encode_sorted

MAX_TEXT_LENGTH: Final = 300
MAX_VALUE_BYTES: Final = 2_048
_REQUEST_ID_BYTES: Final = 12
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")


class EventKind(StrEnum):
    """What an event reports.

    Attributes:
        ATTEMPT: a change that is about to be made, written first with ``auditRequired``.
        CHANGE: a change that was made or has failed.
        REFUSAL: a request, or several of one client, that was refused.
        START: of the daemon.
        GAP: events were lost.
    """

    ATTEMPT = "attempt"
    CHANGE = "change"
    REFUSAL = "refusal"
    START = "start"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One event. Texts of any length may be given; `row` bounds them.

    Attributes:
        at_ms: milliseconds since 1970.
        request_id: of the request, as its response names it.
        principal: role of the client, or id of the broker that signed; empty: anonymous.
        proof: how the role was proven, such as ``token``; ``claimed``: the client only says so.
        original_principal: role for which a proxy sent the request; empty: none.
        address: IP address of the client.
        operation: HTTP method, or the command of the binary protocol.
        route: pattern of the path, such as ``/admin/v2/tenants/{tenant}``.
        target: path of the request, without its query.
        status: HTTP status, or the error of the binary protocol.
        reason: why it was refused, or failed.
        before, after: `summarise` of what changed, where the handler knows it.
        count: refused requests that the event stands for; 0: it stands for one.
        since_ms: when the first of them was refused; 0: the same time as ``at_ms``.
        lost: events before this one that could not be written; of `EventKind.GAP` only.
    """

    kind: EventKind
    at_ms: int
    request_id: str = ""
    principal: str = ""
    proof: str = ""
    original_principal: str = ""
    address: str = ""
    operation: str = ""
    route: str = ""
    target: str = ""
    status: str = ""
    reason: str = ""
    before: Any = field(default=None)
    after: Any = field(default=None)
    count: int = 0
    since_ms: int = 0
    lost: int = 0

    def row(self) -> dict[str, Any]:
        """The event as a JSON object without what is empty."""
        texts = {name: _bounded(text) for name in _TEXTS if (text := getattr(self, name))}
        values = {
            name: value
            for name, value in (("before", self.before), ("after", self.after))
            if value is not None
        }
        numbers = {name: number for name in _NUMBERS if (number := getattr(self, name))}
        return {"kind": self.kind.value, "at_ms": self.at_ms, **texts, **values, **numbers}


_TEXTS: Final = (
    *("request_id", "principal", "proof", "original_principal", "address", "operation"),
    *("route", "target", "status", "reason"),
)
_NUMBERS: Final = ("count", "since_ms", "lost")


def summarise(value: Any) -> Any:
    """A JSON value as the log has it: whole if it is small, otherwise its size and SHA-256.

    A value that cannot be written as JSON, such as a number of more than 64 bits, becomes a text: a
    change is not refused because of its event.
    """
    try:
        written = encode_sorted(value)
    except TypeError:
        return _text_of(value)
    if len(written) <= MAX_VALUE_BYTES:
        return value
    return {"sha256": sha256(written).hexdigest(), "size_bytes": len(written)}


def _text_of(value: Any) -> str:
    try:
        return _bounded(str(value))
    except ValueError:
        # Python writes integers of at most 4,300 digits.
        return "a number with too many digits"


def request_id_of(given: str | None) -> str:
    """The id that a client gives its request, if it is short and plain; otherwise a random one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(_REQUEST_ID_BYTES)


def _bounded(text: str) -> str:
    # Undecodable bytes of a header or a path arrive as surrogates, which JSON cannot have.
    return text[:MAX_TEXT_LENGTH].encode(errors="backslashreplace").decode()
