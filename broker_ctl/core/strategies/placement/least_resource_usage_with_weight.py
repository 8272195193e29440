"""Chooses a broker that is clearly below the mean usage (PIP-181).

Docs: pulsar-placement.
"""

from collections.abc import Sequence
from math import fsum

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.policy import Choice


class LeastResourceUsageWithWeight:
    """Chooses at random among brokers far enough below the mean, else among all.

    Pulsar smooths each broker's usage with its past, one step per *choice*: the more lookups there
    are, the less of the past remains, and in a burst nothing. Here usage is the reported one,
    corrected for bundles that moved or were promised since, so that a burst does not pile up on
    one broker without smoothing. Pulsar's blind spot remains: of [40, 40, 40, 40, 69, 70] the mean
    is 49.8, no broker is 10 points below it, and the random choice may be 70.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose a broker below the mean by the difference; equal views give equal choices."""
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        usages = {b: view.brokers[b].expected.usage_ratio for b in candidates}
        mean = fsum(usages.values()) / len(usages)
        below = [b for b, usage in usages.items() if usage + rules.usage_difference_ratio <= mean]
        chosen = rendezvous_choice(view.draw_seed, str(bundle), below or candidates)
        usage_text = f"{usages[chosen]:.1%} usage, the mean is {mean:.1%}"
        if below:
            detail = f"{usage_text}, one of {len(below)} far enough below"
            return Choice(chosen, Reason.LEAST_USAGE, detail)
        least = f"{rules.usage_difference_ratio:.0%}"
        detail = f"{usage_text}; none of {len(usages)} is {least} below, drawn by lot"
        return Choice(chosen, Reason.DRAWN, detail)
