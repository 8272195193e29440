"""The kinds of records in a history, and the lines that carry them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from broker_ctl.core.history.columns import Doc, RowKind, RowT, Value, kind
from broker_ctl.core.history.rows import (
    AuditEventRow,
    BoundariesRow,
    BrokerLoadRow,
    BundleLoadRow,
    CapacityRow,
    DecisionRow,
    LeaderEpochRow,
    OwnershipChangeRow,
    PartitionTransitionRow,
    PolicyMemoryRow,
    PolicyVersionRow,
    SessionEventRow,
)
from broker_ctl.errors import CorruptRecord

# Every kind of rows that a cluster's history has, by name.


BROKER_LOADS: Final = kind(
    "broker_loads",
    BrokerLoadRow,
    "one row per epoch, cycle and live broker that has reported",
    *("cluster", "epoch", "cycle", "broker"),
)
BUNDLE_LOADS: Final = kind(
    "bundle_loads",
    BundleLoadRow,
    "one row per epoch, cycle and bundle that has an owner or was looked up",
    *("cluster", "epoch", "cycle", "bundle"),
    is_packed=True,
)
BUNDLE_BOUNDARIES: Final = kind(
    "bundle_boundaries",
    BoundariesRow,
    "one row per epoch, cycle and namespace whose ring has changed since the previous cycle",
    *("cluster", "epoch", "cycle", "namespace"),
)
CAPACITIES: Final = kind(
    "capacities",
    CapacityRow,
    "one row per epoch, cycle and broker whose capacity has changed since the previous cycle",
    *("cluster", "epoch", "cycle", "broker"),
)
DECISIONS: Final = kind("decisions", DecisionRow, "one row per decision and outcome", "id")
POLICY_MEMORY: Final = kind(
    "policy_memory",
    PolicyMemoryRow,
    "one row per epoch and cycle in which load is shed",
    *("cluster", "epoch", "cycle"),
)
OWNERSHIP_CHANGES: Final = kind(
    "ownership_changes",
    OwnershipChangeRow,
    "one row per bundle that a broker acquired or released",
    "id",
)
PARTITION_TRANSITIONS: Final = kind(
    "partition_transitions",
    PartitionTransitionRow,
    "one row per partition and change of its state",
    "id",
    is_packed=True,
)
SESSION_EVENTS: Final = kind(
    "session_events", SessionEventRow, "one row per event of a daemon's session", "id"
)
LEADER_EPOCHS: Final = kind(
    "leader_epochs", LeaderEpochRow, "one row per beginning and end of a leadership term", "id"
)
POLICY_VERSIONS: Final = kind(
    "policy_versions",
    PolicyVersionRow,
    "one row per epoch and cycle in which the leader's settings have changed",
    *("cluster", "epoch", "cycle"),
)
AUDIT_EVENTS: Final = kind(
    "audit_events", AuditEventRow, "one row per change or refusal, or several refusals", "id"
)

KINDS: Final[Mapping[str, RowKind[Any]]] = {
    each.name: each
    for each in (
        BROKER_LOADS,
        BUNDLE_LOADS,
        BUNDLE_BOUNDARIES,
        CAPACITIES,
        DECISIONS,
        POLICY_MEMORY,
        OWNERSHIP_CHANGES,
        PARTITION_TRANSITIONS,
        SESSION_EVENTS,
        LEADER_EPOCHS,
        POLICY_VERSIONS,
        AUDIT_EVENTS,
    )
}


# Lines of history: each line is a JSON object with a stamp and the columns of one kind.
#
# The columns of a packed kind are lists; items at the same index form a row. The id of a line is
# globally unique; the id of a packed row is the line's id, a slash and the row's index.


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


class ParsedLine(NamedTuple):
    """A parsed line: one row, or the rows of a packed line."""

    stamp: Stamp
    rows: tuple[Any, ...]


# A stamp is parsed like a row. It has no format number, because all formats share it.
STAMP: Final = kind("stamp", Stamp, "one line", "id")


def line_of(kind: RowKind[RowT], stamp: Stamp, row: RowT) -> dict[str, Value]:
    """Return the JSON object of one row."""
    return stamp._asdict() | kind.to_row(row)


def packed_line_of(
    stamp: Stamp, columns: Mapping[str, Sequence[Value]]
) -> dict[str, Value | Sequence[Value]]:
    """Return the JSON object of many rows of a packed kind, given as lists by column."""
    return {**stamp._asdict(), **columns}


def parse_line(line: Mapping[str, Any]) -> ParsedLine:
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
        return ParsedLine(stamp, found.parse_columns(line, stamp.format))
    return ParsedLine(stamp, (found.parse(line, stamp.format),))
