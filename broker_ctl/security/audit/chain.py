"""The hash chain of the audit log.

Each line is a JSON object with its keys sorted and without blanks. It has its sequence number, the
hash of the line before, and its own: SHA-256 over the same object without ``hash``. A line that is
changed, inserted or removed breaks the chain at that place, also from one file to the next. An
attacker who can write the whole file can also compute all hashes again, or remove the end: only a
hash that is kept elsewhere shows that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from broker_ctl.codec import decode_object, encode_sorted
from broker_ctl.errors import CorruptRecord

FORMAT: Final = 1
# Previous hash of the first line of all.
GENESIS: Final = "0" * 64
MAX_LINE_BYTES: Final = 32_768


@dataclass(frozen=True, slots=True)
class Link:
    """The end of a chain: sequence number and hash of its last line."""

    sequence: int = 0
    hash: str = GENESIS

    def append(self, row: dict[str, Any]) -> tuple[bytes, "Link"]:
        """The line of one more event, with its newline, and the new end of the chain."""
        record = {
            **row,
            "format": FORMAT,
            "sequence": self.sequence + 1,
            "previous": self.hash,
        }
        digest = sha256(encode_sorted(record)).hexdigest()
        line = encode_sorted({**record, "hash": digest}) + b"\n"
        return line, Link(self.sequence + 1, digest)


class BrokenChain(CorruptRecord):
    """A line does not continue the chain.

    Attributes:
        number: of the line, from 1, in all files together.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def read_link(line: bytes) -> tuple[Link, Link, dict[str, Any]]:
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
    return Link(sequence - 1, previous), Link(sequence, digest), record


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
    end: Link = Link()
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


def _links(lines: Iterable[bytes], found: Verified) -> Iterator[Link]:
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


def _break(end: Link, before: Link) -> str:
    if before.sequence == end.sequence:
        return f"it names another hash than that of line {end.sequence} of the log"
    return f"sequence number {end.sequence + 1} was expected, not {before.sequence + 1}"
