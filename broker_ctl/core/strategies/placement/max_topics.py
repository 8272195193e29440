"""Brokers with too many topics (broker.conf: loadBalancerBrokerMaxTopics)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection


def max_topics(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those with room, or all where none has any; what a broker was promised counts."""
    del bundle

    def refusal(broker_id: str) -> Rejection | None:
        topics = view.brokers[broker_id].expected.topics
        if topics <= rules.max_topics:
            return None
        return Rejection(Reason.TOPICS, f"has {topics:,} topics, more than {rules.max_topics:,}")

    roomy = FilterResult.by(candidates, refusal)
    return roomy if roomy.staying else FilterResult(tuple(candidates))
