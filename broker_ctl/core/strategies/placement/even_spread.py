"""A namespace's bundles in equal numbers (broker.conf: loadBalancerDistributeBundlesEvenlyEnabled).

In a small cluster it often leaves one broker, whatever its load: then the strategy has nothing to
say, and what was shed for its load goes where there is as much (docs: differences-load-manager).
"""

from collections.abc import Sequence
from typing import Final

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection

# Its topics carry the cluster's own metadata: always spread, as in Pulsar.
_SYSTEM: Final = Namespace("pulsar", "system")


def even_spread(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those with the fewest bundles of its namespace; what a broker was promised counts."""
    namespace = bundle.namespace
    if not candidates or not (rules.is_spread_evenly or namespace == _SYSTEM):
        return FilterResult(tuple(candidates))
    counts = {
        broker_id: view.brokers[broker_id].served.get(namespace, 0) for broker_id in candidates
    }
    least = min(counts.values())

    def refusal(broker_id: str) -> Rejection | None:
        if counts[broker_id] == least:
            return None
        words = f"has {counts[broker_id]} bundles of {namespace}, others {least}"
        return Rejection(Reason.EVEN_SPREAD, words)

    return FilterResult.by(candidates, refusal)
