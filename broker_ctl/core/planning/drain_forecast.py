"""What a drain would do before anybody orders it: what goes where, and whether there is room.

The limit is the one of the headroom: where the brokers that are left would be fuller than that, the
cluster is too small to go without this one, however well what it carries is spread.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Self

from broker_ctl.core.cluster.decisions import Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class Receiver:
    """A broker that gets something.

    Attributes:
        usage_before_ratio, usage_after_ratio: of all drains together, 1.0 is full.
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
    """Of one broker.

    Attributes:
        bundles, throughput_bytes: what would leave it.
        receivers: who would get what, the most loaded first.
        staying: what would not leave, and why.
        usage_at_best_ratio: how full the others are if all of it is spread evenly; infinite where
            there is load and no broker to receive it.
    """

    broker_id: str
    bundles: int
    throughput_bytes: float
    receivers: tuple[Receiver, ...]
    staying: Mapping[str, str]
    usage_at_best_ratio: float

    @classmethod
    def of(cls, view: ClusterView, broker_id: str, plan: Plan, drained: Collection[str]) -> Self:
        """By a plan that empties all of ``drained``, under no budgets; this broker is one."""
        moves = [move for move in plan.decisions if isinstance(move, Transfer)]
        own = [move for move in moves if move.source == broker_id]
        held = view.brokers[broker_id].owned if broker_id in view.brokers else frozenset[Bundle]()
        names = {str(bundle) for bundle in held}
        return cls(
            broker_id,
            len(own),
            fsum(move.footprint.throughput_bytes for move in own),
            _receivers(view, own, moves),
            {
                skip.subject: f"{skip.reason.words}: {skip.detail}"
                for skip in plan.skipped
                if skip.subject in names
            },
            _at_best(view, moves, drained),
        )

    def refusal(self, limit_ratio: float) -> str:
        """Why the others cannot take it; empty: they can."""
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
    """The view in which none of ``drained`` receives anything."""
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
        after[move.destination] += move.footprint
    by_receiver: dict[str, list[Transfer]] = {}
    for move in own:
        by_receiver.setdefault(move.destination, []).append(move)
    found = [
        Receiver(
            each,
            len(got),
            fsum(move.footprint.throughput_bytes for move in got),
            view.brokers[each].expected.usage_ratio,
            after[each].usage_ratio,
        )
        for each, got in by_receiver.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.usage_after_ratio, one.broker_id)))


def _at_best(view: ClusterView, moves: Iterable[Transfer], drained: Collection[str]) -> float:
    """In parts of a mean broker: what those that stay carry and what comes, over what they have."""
    staying = [
        broker
        for each, broker in view.brokers.items()
        if each not in drained and not broker.is_draining
    ]
    load = fsum(broker.expected.usage_ratio * broker.size_ratio for broker in staying)
    coming = fsum(move.footprint.usage_on(1.0) for move in moves)
    room = fsum(broker.size_ratio for broker in staying)
    if room > 0:
        return (load + coming) / room
    return math.inf if load + coming > 0 else 0.0
