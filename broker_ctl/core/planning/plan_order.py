"""The order of a plan's moves on a view (`core.planning.order`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from broker_ctl.core.cluster.decisions import Action, Assign, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.planning.order import Order, Step, order_moves
from broker_ctl.core.planning.plan_limits import PlanLimits
from broker_ctl.core.rules.limits import MEASURES
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.balance.resources import Demand, Resources


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """Which moves wait for which, and how full the fullest broker becomes on the way.

    Attributes:
        waits: by move, the moves that must have ended before it starts.
        ceiling: usage before or after the plan, whichever is higher; 1.0 is full.
        highest: usage on the way in the worst case.
        forced: number of moves that exceed the ceiling, because they wait for each other.
        postponed: number of moves that are not made yet, because they would exceed a limit.
    """

    waits: Mapping[Action, tuple[Action, ...]] = field(default_factory=dict)
    ceiling: float = 0.0
    highest: float = 0.0
    forced: int = 0
    postponed: int = 0

    @property
    def text(self) -> str:
        """The way from before to after, for people."""
        if not self.forced:
            return f"{self.highest:.1%} at most, not above before or after the plan"
        return (
            f"{self.highest:.1%}, above {self.ceiling:.1%} before or after the plan: "
            f"{self.forced} moves make room for each other"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "waiting_moves": len(self.waits),
            "ceiling_ratio": self.ceiling,
            "highest_ratio": self.highest,
            "forced_moves": self.forced,
            "postponed_moves": self.postponed,
            "text": self.text,
        }


class Ordered(NamedTuple):
    """The decisions in an order for their execution, moves last.

    Attributes:
        postponed: moves that would exceed a limit on the way, as skips.
    """

    decisions: tuple[Action, ...]
    order: PlanOrder = PlanOrder()
    postponed: tuple[Skip, ...] = ()


def ordered(
    view: ClusterView, decisions: Sequence[Action], weights: UsageWeights, rules: PlacementRules
) -> Ordered:
    """Order the decisions under the limits and the topic cap of the rules."""
    moves = [each for each in decisions if isinstance(each, Transfer)]
    if not moves:
        return Ordered(tuple(decisions))
    resources = Resources.of(view, weights)
    demands = _demands(view, resources, moves)
    limits = PlanLimits(view, rules)
    steps = [
        Step(
            move.source,
            move.destination,
            demand,
            limits.amounts(move.bundle),
        )
        for move, demand in zip(moves, demands, strict=True)
    ]
    room = limits.room(decisions)
    order = order_moves(_loads(view, resources), resources.capacities(view), steps, room)
    others = [each for each in decisions if not isinstance(each, Transfer)]
    postponed = tuple(_postponed(moves[number], name) for number, name in order.postponed.items())
    if order.sequence != tuple(range(len(moves))):
        moves = _refreshed(view, others, moves, order)
    by_number = dict(zip(order.sequence, moves, strict=True))
    waits: dict[Action, tuple[Action, ...]] = {
        by_number[late]: tuple(by_number[each] for each in early)
        for late, early in order.waits.items()
    }
    found = PlanOrder(waits, order.ceiling, order.highest, len(order.forced), len(postponed))
    return Ordered((*others, *moves), found, postponed)


def _postponed(move: Transfer, name: str) -> Skip:
    reason = Reason.CAPACITY if name in MEASURES else Reason.TOPIC_SPREAD
    what = f"the limit of {name}" if name in MEASURES else f"the cap of partitions of {name}"
    text = f"{move.destination} would exceed {what} until bundles that are leaving it have left"
    return Skip(str(move.bundle), reason, text)


def _demands(view: ClusterView, resources: Resources, moves: Sequence[Transfer]) -> list[Demand]:
    # Imported by the first plan, since it loads numpy.
    from broker_ctl.core.strategies.balance.demands.readings import readings_of

    readings = readings_of(view, resources, [view.bundles[move.bundle] for move in moves])
    return [tuple(demand) for demand in readings.demand.tolist()]


def _loads(view: ClusterView, resources: Resources) -> dict[str, Demand]:
    """What every broker uses, corrected for what came and went since its report."""
    if resources.is_bytes:
        return {each: (b.expected.throughput_bytes,) for each, b in view.brokers.items()}
    found: dict[str, Demand] = {}
    for broker_id, broker in view.brokers.items():
        now = broker.expected.usage_ratio / broker.usage_ratio if broker.usage_ratio else 1.0
        found[broker_id] = tuple(now * used for used in resources.used(broker.load.usage))
    return found


def _refreshed(
    view: ClusterView, others: Sequence[Action], moves: Sequence[Transfer], order: Order
) -> list[Transfer]:
    """The moves in their order, with the loads before each of them."""
    load = {broker_id: broker.expected for broker_id, broker in view.brokers.items()}
    for each in others:
        if isinstance(each, Assign) and each.destination in load:
            load[each.destination] += view.bundles[each.bundle].load_vector
    found: list[Transfer] = []
    for number in order.sequence:
        move = moves[number]
        source, destination = load[move.source], load[move.destination]
        found.append(replace(move, source_before=source, destination_before=destination))
        load[move.source] = source - move.load_vector
        load[move.destination] = destination + move.load_vector
    return found
