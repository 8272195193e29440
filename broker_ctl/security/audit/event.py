"""One event of the audit log, and the hash chain of all."""

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from broker_ctl.codec import decode_object, encode_sorted
from broker_ctl.errors import CorruptRecord

# One event of the audit log.


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


# The hash chain of the audit log.
#
# Each line is a JSON object with its keys sorted and without blanks. It has its sequence number,
# the hash of the line before, and its own: SHA-256 over the same object without ``hash``. A line
# that is changed, inserted or removed breaks the chain at that place, also from one file to the
# next. An attacker who can write the whole file can also compute all hashes again, or remove the
# end: only a hash that is kept elsewhere shows that.


FORMAT: Final = 1
# Previous hash of the first line of all.
GENESIS: Final = "0" * 64
MAX_LINE_BYTES: Final = 32_768


@dataclass(frozen=True, slots=True)
class ChainLink:
    """The end of a chain: sequence number and hash of its last line."""

    sequence: int = 0
    hash: str = GENESIS

    def append(self, row: dict[str, Any]) -> tuple[bytes, "ChainLink"]:
        """The line of one more event, with its newline, and the new end of the chain."""
        record = {
            **row,
            "format": FORMAT,
            "sequence": self.sequence + 1,
            "previous": self.hash,
        }
        digest = sha256(encode_sorted(record)).hexdigest()
        line = encode_sorted({**record, "hash": digest}) + b"\n"
        return line, ChainLink(self.sequence + 1, digest)


class BrokenChain(CorruptRecord):
    """A line does not continue the chain.

    Attributes:
        number: of the line, from 1, in all files together.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def read_link(line: bytes) -> tuple[ChainLink, ChainLink, dict[str, Any]]:
    """The link before a line, the link that it is, and its record.

    Raises:
        CorruptRecord: not a line of an audit log, or its hash is not that of its content.
    """
    if len(line) > MAX_LINE_BYTES:
        raise CorruptRecord(f"longer than {MAX_LINE_BYTES} bytes")
    record = decode_object(line)
    if record.get("format") != FORMAT:
        raise CorruptRecord(f"format {FORMAT} of an audit log was expected")
    # Also of keys that occur twice, of which a decoder keeps one.
    if encode_sorted(record) != line.removesuffix(b"\n"):
        raise CorruptRecord("its keys are not sorted, or it has blanks")
    sequence, previous, digest = (record.get(name) for name in ("sequence", "previous", "hash"))
    if not isinstance(sequence, int) or sequence < 1 or not isinstance(previous, str):
        raise CorruptRecord("it has no sequence number or no previous hash")
    content = {name: value for name, value in record.items() if name != "hash"}
    if digest != sha256(encode_sorted(content)).hexdigest():
        raise CorruptRecord("its hash is not that of its content")
    return ChainLink(sequence - 1, previous), ChainLink(sequence, digest), record


@dataclass(slots=True)
class Verified:
    """What `verify` has read.

    Attributes:
        first: sequence number of the first line; 0: there is no line.
        lines: number of lines.
        end: the last line's link.
        has_expected: whether a line has the expected hash.
    """

    first: int = 0
    lines: int = 0
    end: ChainLink = ChainLink()
    has_expected: bool = False


def verify(lines: Iterable[bytes], expected: str | None = None) -> Verified:
    """Check the chain of all lines, oldest first.

    Args:
        lines: with their newlines.
        expected: a hash that was read earlier, which a line must have.

    Raises:
        BrokenChain: at the first line that does not continue it.
    """
    found = Verified()
    for number, link in enumerate(_links(lines, found), 1):
        found.first = found.first or link.sequence
        found.lines, found.end = number, link
        found.has_expected = found.has_expected or link.hash == expected
    return found


def _links(lines: Iterable[bytes], found: Verified) -> Iterator[ChainLink]:
    for number, line in enumerate(lines, 1):
        try:
            before, link, _ = read_link(line)
        except CorruptRecord as error:
            raise BrokenChain(number, str(error)) from error
        if found.lines and before != found.end:
            raise BrokenChain(number, _break(found.end, before))
        if not found.lines and before.sequence == 0 and before.hash != GENESIS:
            raise BrokenChain(number, "it is the first line and names an earlier one")
        if not line.endswith(b"\n"):
            raise BrokenChain(number, "it has no newline: its end may be missing")
        yield link


def _break(end: ChainLink, before: ChainLink) -> str:
    if before.sequence == end.sequence:
        return f"it names another hash than that of line {end.sequence} of the log"
    return f"sequence number {end.sequence + 1} was expected, not {before.sequence + 1}"
