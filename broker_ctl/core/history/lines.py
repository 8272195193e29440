"""Lines of history: each line is a JSON object with a stamp and the columns of one kind.

The columns of a packed kind are lists; items at the same index form a row. The id of a line is
globally unique; the id of a packed row is the line's id, a slash and the row's index.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.core.history.columns import Doc, Kind, RowT, Value, kind
from broker_ctl.errors import CorruptRecord


class Stamp(NamedTuple):
    """The first columns of every line; all of them are always present."""

    kind: Annotated[str, Doc("name of the kind")]
    format: Annotated[int, Doc("format of the columns of this kind, from 1")]
    id: Annotated[str, Doc("nonce of the writing process, a dash, and its number of the line")]
    cluster: Annotated[str, Doc("name of the cluster")]
    writer: Annotated[str, Doc("broker id of the daemon that wrote it")]
    at_ms: Annotated[int, Doc("time of the row, on the writer's clock", "ms since 1970")]
    epoch: Annotated[int, Doc("leader epoch; 0: not written by a leader")]
    cycle: Annotated[int, Doc("the leader's cycle in that epoch; 0: not written in a cycle")]


class Parsed(NamedTuple):
    """A parsed line: one row, or the rows of a packed line."""

    stamp: Stamp
    rows: tuple[Any, ...]


# A stamp is parsed like a row. It has no format number, because all formats share it.
STAMP: Final = kind("stamp", Stamp, "one line", "id")


def line_of(kind: Kind[RowT], stamp: Stamp, row: RowT) -> dict[str, Value]:
    """Return the JSON object of one row."""
    return stamp._asdict() | kind.to_row(row)


def packed_line_of(
    stamp: Stamp, columns: Mapping[str, Sequence[Value]]
) -> dict[str, Value | Sequence[Value]]:
    """Return the JSON object of many rows of a packed kind, given as lists by column."""
    return {**stamp._asdict(), **columns}


def parse_line(line: Mapping[str, Any]) -> Parsed:
    """Parse a line of any kind.

    Raises:
        CorruptRecord: the kind is unknown, or the columns do not match it.
        NewerVersion: a newer release wrote it.
    """
    stamp = STAMP.parse(line, 1)
    found = KINDS.get(stamp.kind)
    if found is None:
        raise CorruptRecord(f"{stamp.kind!r} is not a kind of history")
    if found.is_packed:
        return Parsed(stamp, found.parse_columns(line, stamp.format))
    return Parsed(stamp, (found.parse(line, stamp.format),))
