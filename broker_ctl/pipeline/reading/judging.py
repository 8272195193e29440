"""Judges lines and rows of segments: what is a record, and why another one is not."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final, NamedTuple

from broker_ctl.codec import decode
from broker_ctl.core.history.columns import Column, ColumnType, RowKind, is_of
from broker_ctl.core.history.row_kinds import KINDS, STAMP
from broker_ctl.errors import CorruptRecord
from broker_ctl.pipeline.directories import directory_fault

# From the bytes of a segment to its lines, in bounded memory.


# Daemons write a few hundred rows into a line, which is far shorter.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
UNREADABLE: Final = "cannot be read"
_GZIP: Final = zlib.MAX_WBITS | 16


class Line(NamedTuple):
    """A line of a segment.

    Attributes:
        number: in its segment, from 1.
        data: null if it is too long.
    """

    number: int
    data: bytes | None


def too_large(limit_bytes: int) -> str:
    """Fault of a segment with more bytes than that after decompression."""
    return f"larger than {limit_bytes} bytes after decompression"


def unpack(name: str, content: bytes | memoryview, limit_bytes: int) -> bytes:
    """The bytes of a segment, which is compressed if its name says so.

    Never holds more than one byte above the limit, whatever the file would unpack to.

    Raises:
        CorruptRecord: it is larger than the limit, or no gzip, or torn; the message is the fault.
    """
    parts = _members(content, limit_bytes) if name.endswith(".gz") else (bytes(content),)
    data = b"".join(parts)
    if len(data) > limit_bytes:
        raise CorruptRecord(too_large(limit_bytes))
    return data


def _members(content: bytes | memoryview, limit_bytes: int) -> Iterator[bytes]:
    """The content of each member of a gzip file, up to one byte above the limit."""
    left = limit_bytes + 1
    rest = content
    while left:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            data = unpacker.decompress(rest, left)
        except zlib.error as error:
            raise CorruptRecord(UNREADABLE) from error
        yield data
        left -= len(data)
        if unpacker.eof:
            rest = unpacker.unused_data
            if not rest:
                return
        elif left:
            raise CorruptRecord(UNREADABLE)


def split(data: bytes) -> Iterator[Line]:
    """The lines that are not empty."""
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        if end - start > MAX_LINE_BYTES:
            yield Line(number, None)
        elif end > start:
            yield Line(number, data[start:end])
        start = end + 1


# Judges a line in one pass: the faults that keep it out of the tables.
#
# A line is taken in whole, or goes to quarantine whole. Unlike `core.history.lines.parse_line`,
# which builds rows, the lists of a packed line stay lists: that is what makes the columns of a
# table.


# From 2000 to 2100: other times come from a wrong clock, and would create partitions for their
# days. What is later than its own segment comes from a clock that is ahead, see `is_ahead`.
_FIRST_MS: Final = 946_684_800_000
_END_MS: Final = 4_102_444_800_000
_DAY_MS: Final = 86_400_000
AHEAD: Final = "at_ms is more than a day after its segment was written: a clock was ahead"
_HIGHEST: Final = 2**63 - 1
# Types of the items of a packed list, exactly: True is not an integer.
_PLAIN: Final[Mapping[ColumnType, frozenset[type]]] = {
    ColumnType.TEXT: frozenset({str}),
    ColumnType.INTEGER: frozenset({int}),
    ColumnType.NUMBER: frozenset({int, float}),
    ColumnType.FLAG: frozenset({bool}),
    ColumnType.TEXTS: frozenset({list}),
    ColumnType.INTEGERS: frozenset({list}),
}
_STAMP_NAMES: Final = [column.name for column in STAMP.columns]
_STAMP_TYPES: Final = [
    {ColumnType.TEXT: str, ColumnType.INTEGER: int}[column.type] for column in STAMP.columns
]
# Combinations of types of a kind that are remembered.
_MOST_TYPES: Final = 256
_ITEMS: Final = {ColumnType.TEXTS: ColumnType.TEXT, ColumnType.INTEGERS: ColumnType.INTEGER}
_NOT_AN_OBJECT: Final = "not a JSON object"
_OTHER_TYPE: Final = "a column is of another type"
_HAS_NULL: Final = "a list has a null that must have none"


class Judged(NamedTuple):
    """A line and its fault; without one the fields are those of a line of its kind.

    Attributes:
        rows: that it holds.
    """

    fields: Mapping[str, Any]
    fault: str | None
    rows: int = 0


def judge(data: bytes | None, kinds: Mapping[str, RowKind[Any]] = KINDS) -> Judged:
    """Parse a line, and judge it; None is a line that is too long."""
    if data is None:
        return Judged({}, f"longer than {MAX_LINE_BYTES} bytes")
    try:
        fields = decode(data)
    except CorruptRecord:
        return Judged({}, _NOT_AN_OBJECT)
    if not isinstance(fields, dict):
        return Judged({}, _NOT_AN_OBJECT)
    if fault := _stamp_fault(fields, kinds):
        return Judged(fields, fault)
    plan = _plan_of(kinds[fields["kind"]], fields["format"])
    values = [fields.get(name) for name in plan.names]
    if not plan.kind.is_packed:
        return Judged(fields, plan.row_fault(values), 1)
    fault = _lists_fault(plan.columns, values)
    return Judged(fields, fault, 0 if fault else len(values[0] or ()))


def is_ahead(judged: Judged, written_ms: int) -> bool:
    """Whether a line without a fault says a day that was not over when it was written.

    One such line would be the newest day of its cluster, for as long as its clock was ahead. A day
    more than the time of the file is allowed, whose clock may be another.
    """
    return bool(judged.fields["at_ms"] > written_ms + _DAY_MS)


def _stamp_fault(fields: Mapping[str, Any], kinds: Mapping[str, RowKind[Any]]) -> str | None:
    stamp: list[Any] = [fields.get(name) for name in _STAMP_NAMES]
    if [*map(type, stamp)] != _STAMP_TYPES:
        return _wrong_stamp(fields)
    kind, format_, line_id, cluster, _, at_ms, epoch, cycle = stamp
    known = kinds.get(kind)
    if (
        known is not None
        and 1 <= format_ <= known.format
        and line_id
        and directory_fault("cluster", cluster) is None
        and _FIRST_MS <= at_ms < _END_MS
        and abs(epoch) <= _HIGHEST
        and abs(cycle) <= _HIGHEST
    ):
        return None
    return _wrong_stamp(fields) or _wrong_value(fields, known)


def _wrong_stamp(fields: Mapping[str, Any]) -> str | None:
    for column in STAMP.columns:
        if not is_of(column.type, fields.get(column.name)):
            return f"{column.name} is missing, or is not {column.type}"
    return None


def _wrong_value(fields: Mapping[str, Any], known: RowKind[Any] | None) -> str | None:
    cluster = directory_fault("cluster", fields["cluster"])
    faults: tuple[tuple[str | None, bool], ...] = (
        ("no kind of history", known is None),
        ("format below 1", fields["format"] < 1),
        ("a newer release wrote it", known is not None and fields["format"] > known.format),
        ("id is empty", not fields["id"]),
        (cluster, cluster is not None),
        ("at_ms is not between 2000 and 2100", not _FIRST_MS <= fields["at_ms"] < _END_MS),
    )
    return next((fault for fault, is_so in faults if is_so), None)


class _Plan:
    """What a line of a kind and a format must be.

    Most lines of a kind have values of the same types: what types were right once are known to be.

    Attributes:
        columns: that the format has.
        names: of these.
    """

    def __init__(self, kind: RowKind[Any], format_: int) -> None:
        self.kind = kind
        self.columns = [column for column in kind.columns if column.since <= format_]
        self.names = [column.name for column in self.columns]
        # By types of the values: places of the integers, whose size is still to be looked at.
        self._right: dict[tuple[type, ...], list[int]] = {}

    def row_fault(self, values: Sequence[Any]) -> str | None:
        """Of a line that is one row."""
        types = tuple(map(type, values))
        integers = self._right.get(types)
        if integers is not None and all(abs(values[place]) <= _HIGHEST for place in integers):
            return None
        fault = _row_fault(self.columns, values)
        if fault is None and list not in types and len(self._right) < _MOST_TYPES:
            self._right[types] = [place for place, type_ in enumerate(types) if type_ is int]
        return fault


_PLANS: Final[dict[tuple[str, int], _Plan]] = {}


def _plan_of(kind: RowKind[Any], format_: int) -> _Plan:
    plan = _PLANS.get((kind.name, format_))
    if plan is None or plan.kind is not kind:
        plan = _PLANS[kind.name, format_] = _Plan(kind, format_)
    return plan


def _row_fault(columns: Sequence[Column], values: Sequence[Any]) -> str | None:
    is_missing = has_null = False
    for column, value in zip(columns, values, strict=True):
        if value is None:
            is_missing |= not column.is_optional
        elif isinstance(value, list) and None in value:
            has_null = True
        elif not is_of(column.type, value):
            return _OTHER_TYPE
    if is_missing:
        return "a column is missing"
    return _HAS_NULL if has_null else None


def _lists_fault(columns: Sequence[Column], values: Sequence[Any]) -> str | None:
    """Of a packed line."""
    is_missing = has_null = False
    lengths = set()
    for column, items in zip(columns, values, strict=True):
        if items is None:
            is_missing = True
            continue
        if not isinstance(items, list) or not _are_of(column.type, items):
            return _OTHER_TYPE
        lengths.add(len(items))
        has_null |= not column.is_optional and None in items
        if column.type in _ITEMS:
            has_null |= any(None in item for item in items if item is not None)
    if is_missing:
        return "a list is missing"
    if len(lengths) > 1:
        return "its lists are not equally long"
    return _HAS_NULL if has_null else None


def _are_of(type_: ColumnType, items: Sequence[Any]) -> bool:
    """Whether each item is of the type, or null."""
    types = set(map(type, items)) - {NoneType}
    if not types <= _PLAIN[type_]:
        return False
    if type_ is ColumnType.INTEGER:
        return max(filter(None, items), default=0) <= _HIGHEST
    if type_ in _ITEMS:
        return _are_of(_ITEMS[type_], list(chain.from_iterable(filter(None, items))))
    return True
