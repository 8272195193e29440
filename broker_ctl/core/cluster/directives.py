"""Lasting directives of operators: a pause, and drains with their progress."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Reason, Skip, Unload
from broker_ctl.core.cluster.view import ClusterView

# Lasting directives of operators: a pause, and drains of brokers.
#
# They stay in force across leaders until an operator revokes them (docs: cruise-control).


MOST_REASON: Final = 512
MOST_WHO: Final = 128


@dataclass(frozen=True, slots=True)
class AuditInfo:
    """Who gave a directive, when and why.

    Attributes:
        at_ms: time in ms since 1970.
        who: a role, or the name that the operator gave; empty if there is none.
        why: reason in the operator's words.
    """

    at_ms: int
    who: str = ""
    why: str = ""

    @classmethod
    def of(cls, at_ms: int, who: str, why: str) -> "AuditInfo":
        """Build it, truncating texts to the limits of a node."""
        return cls(at_ms, who[:MOST_WHO], why[:MOST_REASON])

    @property
    def suffix(self) -> str:
        """Text for the end of a log line; empty if neither who nor why is known."""
        by = f" by {self.who}" if self.who else ""
        return by + (f": {self.why}" if self.why else "")

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"since_ms": self.at_ms, "by": self.who, "reason": self.why}


@dataclass(frozen=True, slots=True)
class Pause:
    """The leader makes decisions, and executes none of its own.

    Attributes:
        is_automatic: the leader gave it itself, and ends it when its cause is over.
        lost: the brokers whose loss is the cause of an automatic one: a broker that starts later
            has not seen them, and may lead.
        rollout_id: the rollout that gave it and ends it; empty: none.
    """

    order: AuditInfo
    is_automatic: bool = False
    lost: tuple[str, ...] = ()
    rollout_id: str = ""

    @property
    def is_operators(self) -> bool:
        """Whether only an operator ends it."""
        return not (self.is_automatic or self.rollout_id)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"paused": True, **self.order.to_row(), "automatic": self.is_automatic}


@dataclass(frozen=True, slots=True)
class Drain:
    """A broker is emptied and receives nothing, even after a restart.

    Attributes:
        bundles: number of its bundles when the drain began.
        throughput_bytes: their throughput then, in bytes/s.
        ends_ms: when the leader ends it, in ms since 1970; 0: not at a time.
        ends_after: the run of the broker after which the leader ends the drain, once another run
            has registered; empty: not at a restart.
        rollout_id: the rollout that gave it and ends it; empty: none.
    """

    order: AuditInfo
    bundles: int
    throughput_bytes: float
    ends_ms: int = 0
    ends_after: str = ""
    rollout_id: str = ""


@dataclass(frozen=True, slots=True)
class DrainTerms:
    """What an operator asks of a drain beside its broker.

    Attributes:
        begins_ms: when it begins, in ms since 1970; 0: now.
        ends_ms: when it ends, in ms since 1970; 0: not at a time.
        until_restart: whether it ends when the broker has restarted.
        is_forced: whether it begins although the other brokers lack room.
    """

    begins_ms: int = 0
    ends_ms: int = 0
    until_restart: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A drain that begins later."""

    order: AuditInfo
    terms: DrainTerms


# Drains: emptying a broker for an operator, and the progress of that.
#
# The proposals have no memory: all bundles of a drained broker, placed by the placement strategy
# in use. Budgets limit how many move at a time.


_MINUTE_MS: Final = 60_000
_ITS_TURN: Final = frozenset(
    {Reason.BUDGET_BROKER, Reason.BUDGET_CLUSTER, Reason.BUDGET_NAMESPACE, Reason.MOVING}
)


class DrainState(StrEnum):
    """The state of a drain.

    SCHEDULED: its time has not come. DRAINING: bundles are left. DRAINED: none is left. ABSENT: the
    broker is not alive.
    """

    SCHEDULED = "scheduled"
    DRAINING = "draining"
    DRAINED = "drained"
    ABSENT = "absent"


def drain_proposals(
    view: ClusterView, drained: Collection[str], reason: Reason = Reason.DRAIN
) -> tuple[Unload, ...]:
    """Unload all bundles of drained brokers, the heaviest first; pinned bundles stay."""
    found = [
        (bundle_view, broker_id)
        for broker_id in drained
        if broker_id in view.brokers
        for bundle in view.brokers[broker_id].owned
        if not view.is_busy(bundle) and not (bundle_view := view.bundles[bundle]).is_pinned
    ]
    found.sort(key=lambda one: (-one[0].load_vector.throughput_bytes, one[0].bundle))
    return tuple(
        Unload(bundle_view.bundle, broker_id, reason, f"{broker_id} is drained")
        for bundle_view, broker_id in found
    )


def end_of_drain(drain: Drain, run: str | None, now_ms: int) -> str:
    """Why a drain is over; empty if it is not.

    Args:
        drain: judged.
        run: the registered run of the broker; None: the broker is not alive.
        now_ms: time in ms since 1970.
    """
    if 0 < drain.ends_ms <= now_ms:
        return "its time is over"
    if drain.ends_after and run is not None and run != drain.ends_after:
        return "the broker has restarted"
    return ""


def waits_its_turn(skip: Skip) -> bool:
    """Return whether the move is only postponed until moves in flight have ended."""
    return skip.reason in _ITS_TURN


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The progress of a drain.

    Attributes:
        bundles_left: number of bundles that the broker still owns.
        throughput_left_bytes: their throughput in bytes/s.
        ratio: 1.0 means that nothing is left.
        moves_per_minute: rate since the drain began; 0 once it is over.
        eta_s: seconds until nothing is left, at that rate; None if no bundle has moved yet.
    """

    state: DrainState
    bundles_left: int
    throughput_left_bytes: float
    ratio: float
    moves_per_minute: float
    eta_s: float | None

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "state": self.state.value,
            "bundles_left": self.bundles_left,
            "throughput_left_bytes_per_s": self.throughput_left_bytes,
            "progress_ratio": self.ratio,
            "moves_per_s": self.moves_per_minute / 60,
            "eta_s": self.eta_s,
        }


def drain_progress(
    drain: Drain, *, is_present: bool, bundles: int, throughput_bytes: float, now_ms: int
) -> DrainProgress:
    """The progress by the share of initial bundles that is left; at most 1, also after splits."""
    if not is_present or bundles == 0:
        state = DrainState.DRAINED if is_present else DrainState.ABSENT
        return DrainProgress(state, 0, 0.0, 1.0, 0.0, 0.0)
    gone = max(0, drain.bundles - bundles)
    minutes = max(0, now_ms - drain.order.at_ms) / _MINUTE_MS
    rate = gone / minutes if minutes > 0 else 0.0
    return DrainProgress(
        state=DrainState.DRAINING,
        bundles_left=bundles,
        throughput_left_bytes=throughput_bytes,
        ratio=gone / max(1, drain.bundles),
        moves_per_minute=rate,
        eta_s=bundles / rate * 60 if rate > 0 else None,
    )
