"""A broker on its way down receives nothing, nor does one that has gone."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection


def availability(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those that are there to receive. Whoever lost its session is in no view: it is fenced."""
    del bundle, rules

    def refusal(broker_id: str) -> Rejection | None:
        broker = view.brokers.get(broker_id)
        if broker is None:
            return Rejection(Reason.NO_BROKER, "is not there")
        return Rejection(Reason.DRAINING, "is draining") if broker.is_draining else None

    return FilterResult.by(candidates, refusal)
