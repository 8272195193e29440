"""Rows of decisions and what they changed: decisions, changes of owners, partitions."""

from enum import StrEnum
from typing import Annotated, NamedTuple, assert_never

from broker_ctl.core.cluster.decisions import Assign, Decision, Merge, Skip, Split, Transfer, Unload
from broker_ctl.core.history.columns import Doc


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
