"""Rows of what happened: decisions, sessions, leadership, changes of clients, loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Annotated, Any, Final, NamedTuple, Protocol, assert_never

from broker_ctl.core.cluster.decisions import Assign, Decision, Merge, Skip, Split, Transfer, Unload
from broker_ctl.core.history.columns import Doc, RowKind, RowT

# Rows of decisions and what they changed: decisions, changes of owners, partitions.


class DecisionRow(NamedTuple):
    """A decision of the leader and its result; columns that do not apply are null."""

    decision: Annotated[str, Doc("assign, unload, transfer, split, merge or skip")]
    reason: Annotated[str, Doc("one of core.decisions.Reason")]
    detail: Annotated[str, Doc("why, in words")]
    result: Annotated[str, Doc("done, failed, dry_run, paused, held_back or skipped")]
    outcome: Annotated[str, Doc("why it was not executed, in words; may be empty")]
    took_s: Annotated[float, Doc("duration of the execution", "s")]
    subject: Annotated[str | None, Doc("subject of a skip: a bundle, a broker id, or cluster")] = (
        None
    )
    bundle: Annotated[str | None, Doc("bundle of the decision; of a merge the lower one")] = None
    right_bundle: Annotated[str | None, Doc("upper bundle of a merge")] = None
    source: Annotated[str | None, Doc("broker that releases, splits or merges the bundle")] = None
    destination: Annotated[str | None, Doc("broker that receives the bundle")] = None
    algorithm: Annotated[str | None, Doc("name of the split algorithm")] = None
    boundaries: Annotated[
        tuple[int, ...] | None, Doc("boundaries of a split; empty: the owner chooses them")
    ] = None
    throughput_bytes: Annotated[
        float | None, Doc("throughput that moves, in and out, short-term average", "bytes/s")
    ] = None
    source_usage_before_ratio: Annotated[float | None, Doc("its usage before a transfer")] = None
    source_usage_after_ratio: Annotated[float | None, Doc("predicted, after a transfer")] = None
    destination_usage_before_ratio: Annotated[float | None, Doc("its usage before a transfer")] = (
        None
    )
    destination_usage_after_ratio: Annotated[float | None, Doc("predicted, after a transfer")] = (
        None
    )


class OwnershipCause(StrEnum):
    """Why a broker acquired or released a bundle. Releases may add values, but never remove one."""

    # Acquired: for a lookup, or by a command of the leader.
    PLACEMENT = "placement"
    # Acquired or released: by a command of the leader with a destination.
    TRANSFER = "transfer"
    # Acquired or released: this broker split or merged it.
    SPLIT = "split"
    MERGE = "merge"
    # Reclaimed or lost, after the session had expired or the daemon had restarted.
    EXPIRY = "expiry"
    # Released, in this order: an operator unloaded it; the broker is stopping; the data plane did
    # not answer or did not serve the bundle; its owner node was deleted.
    UNLOAD = "unload"
    DRAIN = "drain"
    DATA_PLANE = "data_plane"
    TAKEN_AWAY = "taken_away"


class OwnershipChangeRow(NamedTuple):
    """A bundle that the writer acquired or released."""

    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    is_acquired: Annotated[bool, Doc("true: acquired; false: released")]
    cause: Annotated[str, Doc("one of OwnershipCause")]
    token: Annotated[int, Doc("fencing token: czxid of the owner node; 0: unknown")]
    session_epoch: Annotated[int, Doc("number of the writer's sessions since its start")]


class PartitionTransitionRow(NamedTuple):
    """A state change of a replicated partition by the controller."""

    topic: Annotated[str, Doc("name")]
    partition: Annotated[int, Doc("number")]
    from_state: Annotated[str, Doc("state before")]
    to_state: Annotated[str, Doc("state after")]
    leader: Annotated[int, Doc("broker number; -1: no leader")]
    leader_epoch: Annotated[int, Doc("leader epoch; grows with every change by the controller")]
    isr: Annotated[tuple[int, ...], Doc("broker numbers of the in-sync replicas")]
    reason: Annotated[str, Doc("why")]


def decision_row(decision: Decision, result: str, outcome: str, took_s: float) -> DecisionRow:
    """Return the row of a decision; for the last three arguments see `Outcome`."""
    row = DecisionRow(
        decision.kind, decision.reason.value, decision.detail, result, outcome, took_s
    )
    match decision:
        case Skip(subject):
            return row._replace(subject=subject)
        case Assign(bundle, destination):
            return row._replace(bundle=str(bundle), destination=destination)
        case Unload(bundle, source):
            return row._replace(bundle=str(bundle), source=source)
        case Transfer():
            return _transfer(row, decision)
        case Split(bundle, owner, algorithm, boundaries):
            return row._replace(
                bundle=str(bundle), source=owner, algorithm=algorithm, boundaries=boundaries
            )
        case Merge(left, right, owner):
            return row._replace(bundle=str(left), right_bundle=str(right), source=owner)
    assert_never(decision)


def _transfer(row: DecisionRow, transfer: Transfer) -> DecisionRow:
    return row._replace(
        bundle=str(transfer.bundle),
        source=transfer.source,
        destination=transfer.destination,
        throughput_bytes=transfer.load_vector.throughput_bytes,
        source_usage_before_ratio=transfer.source_before.usage_ratio,
        source_usage_after_ratio=transfer.source_after.usage_ratio,
        destination_usage_before_ratio=transfer.destination_before.usage_ratio,
        destination_usage_after_ratio=transfer.destination_after.usage_ratio,
    )


# Rows of sessions, leadership, and the leader's settings and memory.


class SessionEventRow(NamedTuple):
    """An event of the writer's session (core/machines/session.py)."""

    event: Annotated[str, Doc("one of core.session.Action")]
    state: Annotated[str, Doc("state after the event, one of core.session.State")]
    session_epoch: Annotated[int, Doc("number of the writer's sessions since its start")]


class ElectionName(StrEnum):
    """Name of an election."""

    LOAD_BALANCE = "loadbalance"
    CONTROLLER = "controller"


class LeaderEpochRow(NamedTuple):
    """The writer's leadership began or ended."""

    seat: Annotated[str, Doc("loadbalance or controller")]
    is_begin: Annotated[bool, Doc("true: it began; false: it ended")]
    detail: Annotated[str, Doc("why it ended, in words; may be empty")] = ""


class PolicyVersionRow(NamedTuple):
    """Settings of the leader, valid in its epoch until the next row."""

    policy_hash: Annotated[str, Doc("SHA-256 of settings, hexadecimal")]
    load_manager: Annotated[str, Doc("loadManagerClassName")]
    shedding: Annotated[str, Doc("loadBalancerLoadSheddingStrategy; empty: nothing is shed")]
    placement: Annotated[str, Doc("loadBalancerLoadPlacementStrategy")]
    settings: Annotated[str, Doc("JSON object: all settings of the leader, as text by key")]
    release: Annotated[str, Doc("version of broker-ctl")]


class PolicyMemoryRow(NamedTuple):
    """Memory of the shedding strategy after a cycle, within bounds."""

    memory: Annotated[
        str, Doc("JSON object; the whole memory, or only the usage averages by broker")
    ]
    is_whole: Annotated[
        bool, Doc("whether the memory is complete, so that the strategy can resume from it")
    ]


# Rows of what clients have changed, and of what they were refused.


class AuditEventRow(NamedTuple):
    """A change that was made or has failed, or a refused request, at the writer.

    The audit log, where there is one, has the same request id, and what was before and after.
    """

    event: Annotated[str, Doc("change or refusal")]
    principal: Annotated[str, Doc("role of the client, or id of the broker; empty: anonymous")]
    proof: Annotated[str, Doc("how the role was proven; claimed: the client only says so")]
    original_principal: Annotated[str, Doc("for whom a proxy acts; empty: the client itself")]
    address: Annotated[str, Doc("IP address of the client")]
    operation: Annotated[str, Doc("HTTP method, or command of the binary protocol")]
    route: Annotated[str, Doc("pattern of the path; empty: of the binary protocol")]
    target: Annotated[str, Doc("path without its query, or the topic or namespace")]
    status: Annotated[str, Doc("HTTP status, or the error of the binary protocol")]
    reason: Annotated[str, Doc("why it failed or was refused")]
    request_id: Annotated[str, Doc("id of the request")]
    requests: Annotated[int, Doc("refusals that the row stands for")]


# Rows of what a leader saw in one cycle: brokers, bundles, boundaries, capacities.
#
# Rates have the names that they have in traces of bundles (`simulation/traces/trace_files.py`).


class BrokerLoadRow(NamedTuple):
    """A live broker that has reported."""

    broker: Annotated[str, Doc("id of the broker")]
    usage_ratio: Annotated[float, Doc("largest weighted usage of its resources, 1.0 is full")]
    expected_usage_ratio: Annotated[
        float, Doc("usage_ratio, corrected for bundles acquired or released since the report")
    ]
    cpu_percent: Annotated[float, Doc("processor usage, in percent of its limit", "%")]
    memory_percent: Annotated[float, Doc("heap usage, in percent of its limit", "%")]
    direct_memory_percent: Annotated[
        float, Doc("direct memory usage, in percent of its limit", "%")
    ]
    bandwidth_in_percent: Annotated[float, Doc("incoming bandwidth, in percent of its limit", "%")]
    bandwidth_out_percent: Annotated[float, Doc("outgoing bandwidth, in percent of its limit", "%")]
    msg_rate_in: Annotated[float, Doc("incoming messages, sum over its bundles", "msg/s")]
    msg_rate_out: Annotated[float, Doc("outgoing messages, sum over its bundles", "msg/s")]
    bytes_in: Annotated[float, Doc("incoming bytes, sum over its bundles", "bytes/s")]
    bytes_out: Annotated[float, Doc("outgoing bytes, sum over its bundles", "bytes/s")]
    bundles: Annotated[int, Doc("number of bundles in its report")]
    topics: Annotated[int, Doc("topics, sum over its bundles")]
    producers: Annotated[int, Doc("producers, sum over its bundles")]
    consumers: Annotated[int, Doc("consumers, sum over its bundles")]
    unlisted_bundles: Annotated[
        int, Doc("number of its bundles that the report only contains as a sum")
    ]
    report_age_s: Annotated[
        float, Doc("time since the leader received its report, on the leader's clock", "s")
    ]
    reported_at_ms: Annotated[
        int, Doc("time of its report, on the broker's clock", "ms since 1970")
    ]
    is_draining: Annotated[
        bool, Doc("whether the broker is draining: it gives up bundles and receives none")
    ]


class BundleLoadRow(NamedTuple):
    """A bundle that has an owner or was looked up.

    Values that its owner has not reported are null: the bundle has just moved there.
    """

    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    owner: Annotated[str | None, Doc("broker id; null: no owner")]
    msg_rate_in: Annotated[
        float | None, Doc("incoming messages, from the report of its owner", "msg/s")
    ]
    msg_rate_out: Annotated[
        float | None, Doc("outgoing messages, from the report of its owner", "msg/s")
    ]
    bytes_in: Annotated[
        float | None, Doc("incoming bytes, from the report of its owner", "bytes/s")
    ]
    bytes_out: Annotated[
        float | None, Doc("outgoing bytes, from the report of its owner", "bytes/s")
    ]
    topics: Annotated[int | None, Doc("topics, from the report of its owner")]
    producers: Annotated[int | None, Doc("producers, from the report of its owner")]
    consumers: Annotated[int | None, Doc("consumers, from the report of its owner")]
    cache_bytes: Annotated[
        int | None, Doc("size of its caches, from the report of its owner", "bytes")
    ]
    usage_ratio: Annotated[
        float, Doc("fraction of a mean broker's capacity that the bundle uses, 1.0 is all of it")
    ]
    short_bytes: Annotated[float, Doc("short-term average of bytes in and out", "bytes/s")]
    long_msg_rate: Annotated[float, Doc("long-term average of messages in and out", "msg/s")]


class BoundariesRow(NamedTuple):
    """The ring of a namespace, valid in its epoch until the next row of the namespace."""

    namespace: Annotated[str, Doc("tenant/namespace")]
    boundaries: Annotated[
        tuple[int, ...],
        Doc("ascending from 0 to 4294967295, N+1 values for N bundles; empty: namespace deleted"),
    ]


class CapacityRow(NamedTuple):
    """The capacity of a broker, valid in its epoch until the next row of the broker.

    A limit of 0 means that it is unknown.
    """

    broker: Annotated[str, Doc("id of the broker")]
    size_ratio: Annotated[float, Doc("capacity relative to the mean broker")]
    cpu_limit_percent: Annotated[float, Doc("limit of processor time, 100 is one core", "%")]
    memory_limit_mib: Annotated[float, Doc("limit of the heap", "MiB")]
    direct_memory_limit_mib: Annotated[float, Doc("limit of direct memory", "MiB")]
    bandwidth_in_limit_kbit_s: Annotated[float, Doc("limit of incoming bandwidth", "Kbit/s")]
    bandwidth_out_limit_kbit_s: Annotated[float, Doc("limit of outgoing bandwidth", "Kbit/s")]
    started_at_ms: Annotated[int, Doc("start time of the broker; 0: not reported", "ms since 1970")]
    release: Annotated[str, Doc("version that the broker reports; may be empty")]
    takes_persistent: Annotated[bool, Doc("whether the broker accepts persistent topics")]
    takes_non_persistent: Annotated[bool, Doc("whether the broker accepts non-persistent topics")]


# The journal of rows, and the entry of a decision.


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a decision.

    Attributes:
        result: ``done``, ``failed``, ``dry_run``, ``paused``, ``held_back`` (by the cluster's own
            balancer) or ``skipped``.
        detail: the reason, if it was not executed.
        took_s: seconds from the first act to the last.
    """

    result: str
    detail: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One decision with its outcome."""

    at_ms: int
    epoch: int
    cycle: int
    decision: Decision
    outcome: Outcome


class RowJournal(Protocol):
    """Records rows of history."""

    def record_rows(
        self,
        kind: RowKind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        """Record some hundred rows; never blocks, never raises: rows without room are dropped.

        ``epoch`` and ``cycle`` are 0 outside of a leadership term; ``at_ms`` is now by default.
        """
        ...


# How even the load was in the past: one point a cycle, bounded however long a leader leads.


MOST_POINTS: Final = 720


@dataclass(frozen=True, slots=True)
class BalancePoint:
    """Imbalance at one time, as max over mean; None: no load.

    Attributes:
        at_ms: of the view, in ms since 1970.
    """

    at_ms: int
    usage: float | None
    throughput: float | None

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "at_ms": self.at_ms,
            "usage_imbalance": self.usage,
            "throughput_imbalance": self.throughput,
        }


class BalanceTrace:
    """The points of one term, oldest first.

    Where there is no more room, two neighbours become one, the less even one: old and new points
    lie equally far apart, and a peak stays.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most = most_points
        self._points: list[BalancePoint] = []
        # The number of cycles that make a point, and of those in the newest point.
        self._cycles = 1
        self._counted = 0

    def points(self, most: int = MOST_POINTS) -> tuple[BalancePoint, ...]:
        """The oldest first; of more than ``most``, the less even ones of equal parts."""
        size = -(-len(self._points) // max(1, most))
        parts = (self._points[at : at + size] for at in range(0, len(self._points), size or 1))
        return tuple(reduce(_worse, part) for part in parts)

    def add(self, point: BalancePoint) -> None:
        """Note the next cycle."""
        if 0 < self._counted < self._cycles and self._points:
            self._points[-1] = _worse(self._points[-1], point)
            self._counted += 1
            return
        if len(self._points) >= self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=False)
            self._points = [_worse(first, second) for first, second in pairs]
            self._cycles *= 2
        self._points.append(point)
        self._counted = 1


def _worse(first: BalancePoint, second: BalancePoint) -> BalancePoint:
    return first if (first.usage or 0.0) > (second.usage or 0.0) else second
