"""In turn, whatever the load (Pulsar's RoundRobinBrokerSelector)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class RoundRobin:
    """Pulsar counts its choices; here the bundles that the candidates have are the counter.

    Each choice adds one to them, in the same view and in the next, so the turn outlasts leaders and
    needs no memory.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """The next in the order of their ids."""
        del bundle, rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        in_order = sorted(candidates)
        turn = sum(len(view.brokers[broker_id].owned) for broker_id in in_order)
        number = turn % len(in_order)
        detail = f"the turn, {number + 1} of {len(in_order)}"
        return Choice(in_order[number], Reason.ROUND_ROBIN, detail)
