"""``balance``: a bundle goes to the broker whose usage is lowest with the bundle on it.

Docs: planner-sources. This is the placement half of `core.strategies.balance`, with the same
objective. Bundles promised to a broker count as if it owned them, so that a series of choices,
heaviest bundle first, spreads the bundles.
"""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class BalancePlacement:
    """Chooses the broker with the lowest usage after the move; without usage, by throughput."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the broker with the lowest usage after the move; ties are broken by the seed."""
        del rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        bundle_view = view.bundles.get(bundle)
        after: dict[str, tuple[float, float]] = {}
        for broker_id in candidates:
            expected = view.brokers[broker_id].expected
            load = expected if bundle_view is None else expected + bundle_view.load_vector
            after[broker_id] = (load.usage_ratio, load.throughput_bytes)
        least = min(after.values())
        tied = [broker_id for broker_id, load in after.items() if load == least]
        chosen = rendezvous_choice(view.draw_seed, str(bundle), tied)
        detail = f"{least[0]:.1%} usage with it, {_comparison_text(len(after))}"
        return Choice(chosen, Reason.LEAST_USAGE, detail)


def _comparison_text(count: int) -> str:
    return "no other broker may take it" if count == 1 else f"the least of {count}"
