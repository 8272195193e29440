"""Lines of history: each is one JSON object, a stamp and the columns of one kind beside it.

Columns of a packed kind are lists, and the rows are their items of the same place. The id of a
line is written once in the world; that of a packed row is the line's, a slash, and its place.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.core.history.columns import Doc, Kind, RowT, Value, kind
from broker_ctl.errors import CorruptRecord


class Stamp(NamedTuple):
    """Begin of every line; each column is always present."""

    kind: Annotated[str, Doc("name of the kind")]
    format: Annotated[int, Doc("of the columns of this kind, counted from 1")]
    id: Annotated[str, Doc("nonce of the writing process, a dash, and its count of lines")]
    cluster: Annotated[str, Doc("name of the cluster")]
    writer: Annotated[str, Doc("broker id of the daemon that wrote it")]
    at_ms: Annotated[int, Doc("wall clock of the writer when it was so", "ms since 1970")]
    epoch: Annotated[int, Doc("leader epoch; 0: not of a leader")]
    cycle: Annotated[int, Doc("the leader's cycle in that epoch; 0: of none")]


class Parsed(NamedTuple):
    """A line that was read: one row, or those of a packed kind."""

    stamp: Stamp
    rows: tuple[Any, ...]


# A stamp is read like a row. It has no format of its own: it is what all formats have in common.
STAMP: Final = kind("stamp", Stamp, "one line", "id")


def line_of(kind: Kind[RowT], stamp: Stamp, row: RowT) -> dict[str, Value]:
    """The JSON object of one row."""
    return stamp._asdict() | kind.to_row(row)


def packed_line_of(
    stamp: Stamp, columns: Mapping[str, Sequence[Value]]
) -> dict[str, Value | Sequence[Value]]:
    """The JSON object of many rows of a packed kind, by `Kind.to_columns` or otherwise."""
    return {**stamp._asdict(), **columns}


def parse_line(line: Mapping[str, Any]) -> Parsed:
    """Read a JSON object of whatever kind.

    Raises:
        CorruptRecord: its kind is unknown, or it does not fit its kind.
        NewerVersion: a newer release wrote it.
    """
    stamp = STAMP.parse(line, 1)
    found = KINDS.get(stamp.kind)
    if found is None:
        raise CorruptRecord(f"{stamp.kind!r} is not a kind of history")
    if found.is_packed:
        return Parsed(stamp, found.parse_columns(line, stamp.format))
    return Parsed(stamp, (found.parse(line, stamp.format),))
