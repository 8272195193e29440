"""Limits of brokers and caps of topics on a view, for the order of a plan's moves."""

from collections.abc import Sequence
from math import inf
from typing import Final

from broker_ctl.core.cluster.decisions import Action, Assign, Transfer
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.planning.limit_room import Amounts, LimitRoom
from broker_ctl.core.rules.limits import MEASURES
from broker_ctl.core.rules.rules import PlacementRules

# Relative to the broker itself: brokers of other sizes compare in mean brokers.
_RELATIVE: Final = "usage"


class PlanLimits:
    """What bundles take of limits and caps, and what the receivers of a plan have left."""

    def __init__(self, view: ClusterView, rules: PlacementRules) -> None:
        self._view = view
        self._rules = rules

    def amounts(self, bundle: Bundle) -> Amounts:
        """What a bundle takes of each limit, and its partitions by topic; usage in mean brokers."""
        amounts: dict[str, float] = {}
        if self._rules.limits:
            load = self._view.bundles[bundle].load_vector
            amounts |= {name: float(measure.of(load)) for name, measure in MEASURES.items()}
        if self._rules.topic_cap:
            amounts |= self._view.constraints.topics.of(bundle)
        return amounts

    def room(self, decisions: Sequence[Action]) -> LimitRoom:
        """The room of the brokers that receive something.

        What is placed counts from the start, and what an earlier plan moves counts until it has
        left.
        """
        if not self._rules.limits and not self._rules.topic_cap:
            return LimitRoom()
        receivers = {each.destination for each in decisions if isinstance(each, Transfer)}
        brokers = {each: self._view.brokers[each] for each in sorted(receivers)}
        room = LimitRoom(
            {broker_id: self._held(broker) for broker_id, broker in brokers.items()},
            {broker_id: self._most(broker) for broker_id, broker in brokers.items()},
            # Topics are not named among the limits.
            float(self._rules.topic_cap) or inf,
        )
        for move in self._view.moves.values():
            if move.source in brokers and move.bundle in self._view.bundles:
                room.add(move.source, self.amounts(move.bundle))
        for each in decisions:
            if isinstance(each, Assign) and each.destination in brokers:
                room.add(each.destination, self.amounts(each.bundle))
        return room

    def _held(self, broker: BrokerView) -> dict[str, float]:
        held: dict[str, float] = dict(broker.partitions)
        for name, measure in MEASURES.items():
            held[name] = measure.of(broker.held) * self._scale(broker, name)
        return held

    def _most(self, broker: BrokerView) -> Amounts:
        limits = self._rules.limits.of(broker.broker_id).most
        return {
            name: limit * self._scale(broker, name)
            for name, limit in zip(MEASURES, limits, strict=True)
        }

    def _scale(self, broker: BrokerView, name: str) -> float:
        return broker.expected.size_ratio if name == _RELATIVE else 1.0
