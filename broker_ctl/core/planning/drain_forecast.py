"""Forecast of a drain: where its bundles would go, and whether there is room.

The limit is that of the headroom: if the remaining brokers would be fuller than that, even with
evenly spread load, the cluster is too small without this one.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Self

from broker_ctl.core.cluster.decisions import Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class Receiver:
    """A broker that would receive bundles.

    Attributes:
        usage_before_ratio, usage_after_ratio: over all drains together, 1.0 is full.
    """

    broker_id: str
    bundles: int
    throughput_bytes: float
    usage_before_ratio: float
    usage_after_ratio: float

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "broker": self.broker_id,
            "bundles": self.bundles,
            "throughput_bytes_per_s": self.throughput_bytes,
            "usage_before_ratio": self.usage_before_ratio,
            "usage_after_ratio": self.usage_after_ratio,
        }


@dataclass(frozen=True, slots=True)
class DrainForecast:
    """The forecast for one broker.

    Attributes:
        bundles, throughput_bytes: load that would leave it.
        receivers: the receiving brokers, the most loaded first.
        staying: bundles that would not leave, with the reasons.
        usage_at_best_ratio: usage of the others if all load is spread evenly; infinite if there is
            load and no broker to receive it.
    """

    broker_id: str
    bundles: int
    throughput_bytes: float
    receivers: tuple[Receiver, ...]
    staying: Mapping[str, str]
    usage_at_best_ratio: float

    @classmethod
    def of(cls, view: ClusterView, broker_id: str, plan: Plan, drained: Collection[str]) -> Self:
        """Build it from a plan without budgets that empties all of ``drained``, this one too."""
        moves = [move for move in plan.decisions if isinstance(move, Transfer)]
        own = [move for move in moves if move.source == broker_id]
        held = view.brokers[broker_id].owned if broker_id in view.brokers else frozenset[Bundle]()
        names = {str(bundle) for bundle in held}
        return cls(
            broker_id,
            len(own),
            fsum(move.load_vector.throughput_bytes for move in own),
            _receivers(view, own, moves),
            {
                skip.subject: f"{skip.reason.words}: {skip.detail}"
                for skip in plan.skipped
                if skip.subject in names
            },
            _at_best(view, moves, drained),
        )

    def refusal(self, limit_ratio: float) -> str:
        """Why the other brokers cannot receive the load; empty if they can."""
        full = max((each.usage_after_ratio for each in self.receivers), default=0.0)
        most = max(full, self.usage_at_best_ratio)
        if most <= limit_ratio:
            return ""
        share = f"{most:.1%} of its capacity" if math.isfinite(most) else "more than it has"
        return (
            f"without {self.broker_id} the fullest of the others would have to carry {share}, the "
            f"limit is {limit_ratio:.1%} (loadBalancerHeadroomLimitPercentage)"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        most = self.usage_at_best_ratio
        return {
            "broker": self.broker_id,
            "bundles": self.bundles,
            "throughput_bytes_per_s": self.throughput_bytes,
            "receivers": [each.to_row() for each in self.receivers],
            "staying": [{"bundle": name, "why": why} for name, why in sorted(self.staying.items())],
            "usage_at_best_ratio": most if math.isfinite(most) else None,
        }


def drained_view(view: ClusterView, drained: Collection[str]) -> ClusterView:
    """The view in which none of ``drained`` may receive."""
    brokers = {
        each: replace(broker, is_draining=True) if each in drained else broker
        for each, broker in view.brokers.items()
    }
    return replace(view, brokers=brokers)


def _receivers(
    view: ClusterView, own: Iterable[Transfer], moves: Iterable[Transfer]
) -> tuple[Receiver, ...]:
    after = {each: broker.expected for each, broker in view.brokers.items()}
    for move in moves:
        after[move.destination] += move.load_vector
    by_receiver: dict[str, list[Transfer]] = {}
    for move in own:
        by_receiver.setdefault(move.destination, []).append(move)
    found = [
        Receiver(
            each,
            len(got),
            fsum(move.load_vector.throughput_bytes for move in got),
            view.brokers[each].expected.usage_ratio,
            after[each].usage_ratio,
        )
        for each, got in by_receiver.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.usage_after_ratio, one.broker_id)))


def _at_best(view: ClusterView, moves: Iterable[Transfer], drained: Collection[str]) -> float:
    """Load of the remaining brokers plus the moved load, over their capacity."""
    staying = [
        broker
        for each, broker in view.brokers.items()
        if each not in drained and not broker.is_draining
    ]
    load = fsum(broker.expected.usage_ratio * broker.size_ratio for broker in staying)
    coming = fsum(move.load_vector.usage_on(1.0) for move in moves)
    room = fsum(broker.size_ratio for broker in staying)
    if room > 0:
        return (load + coming) / room
    return math.inf if load + coming > 0 else 0.0
