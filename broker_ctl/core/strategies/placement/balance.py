"""``balance``: a bundle goes where the fullest resource is least full with the bundle on it.

Docs: planner-sources. The placement half of `core.balance`: one objective.
What was promised to a broker counts as if it were there, so that many choices one after another,
the heaviest bundle first, are one batch.
"""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class BalancePlacement:
    """Least usage afterwards; least throughput where no broker reports usage."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """The least full afterwards; equal ones draw lots."""
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
