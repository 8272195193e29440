"""The placement half of Pulsar's AvgShedder (docs: pulsar-shedders)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class AvgShedderPlacement:
    """Chooses the destination that the shedder planned, else a random broker, as in Pulsar.

    Pulsar's class shares a map of planned destinations with the shedder. Here the view has the
    planned moves, and a `Transfer` has its destination as the only candidate.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the planned destination if it is a candidate, else a random candidate."""
        del rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        move = view.moves.get(bundle)
        if move is not None and move.destination in candidates:
            return Choice(move.destination, Reason.RESERVED, "it is planned to go there")
        chosen = rendezvous_choice(view.draw_seed, str(bundle), candidates)
        return Choice(chosen, Reason.DRAWN, f"the lot, drawn among {len(candidates)}")
