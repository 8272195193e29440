"""Drains: emptying a broker for an operator, and the progress of that.

The proposals have no memory: all bundles of a drained broker, placed by the placement strategy in
use. Budgets limit how many move at a time.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Reason, Skip, Unload
from broker_ctl.core.cluster.directives import Drain
from broker_ctl.core.cluster.view import ClusterView

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
