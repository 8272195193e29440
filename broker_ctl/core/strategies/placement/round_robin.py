"""Chooses brokers in turn, regardless of load (Pulsar's RoundRobinBrokerSelector)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class RoundRobin:
    """Uses the number of the candidates' bundles as the counter; Pulsar counts its choices.

    Each choice adds a bundle, in the same view and in the next one, so the order continues after a
    change of leader without any memory.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the next broker in the order of ids."""
        del bundle, rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        in_order = sorted(candidates)
        turn = sum(len(view.brokers[broker_id].owned) for broker_id in in_order)
        number = turn % len(in_order)
        detail = f"the turn, {number + 1} of {len(in_order)}"
        return Choice(in_order[number], Reason.ROUND_ROBIN, detail)
