"""From those that may receive a bundle to the one that does.

Reference: pulsar-load-management 6.1.
"""

from collections.abc import Sequence

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Reason
from broker_ctl.core.placement.policy import Choice, PlacementPolicy
from broker_ctl.core.rules import PlacementRules
from broker_ctl.core.view import ClusterView


def place(
    view: ClusterView,
    bundle: Bundle,
    candidates: Sequence[str],
    policy: PlacementPolicy,
    rules: PlacementRules,
) -> Choice:
    """Choose the receiver of ``bundle`` out of ``candidates``.

    A bundle that is on its way somewhere goes there. Brokers with too many topics are passed over
    unless all have; where that leaves only an overloaded one, they are asked after all.
    """
    move = view.moves.get(bundle)
    if move and move.destination in view.brokers:
        return Choice(move.destination, Reason.RESERVED, "it is on its way there")
    roomy = [
        broker_id
        for broker_id in candidates
        if view.brokers[broker_id].expected.topics <= rules.max_topics
    ]
    choice = policy.select(view, bundle, roomy or candidates, rules)
    if roomy and len(roomy) < len(candidates) and _is_overloaded(view, choice, rules):
        return policy.select(view, bundle, candidates, rules)
    return choice


def _is_overloaded(view: ClusterView, choice: Choice, rules: PlacementRules) -> bool:
    if choice.broker_id is None:
        return False
    return view.brokers[choice.broker_id].expected.usage_ratio > rules.overloaded_ratio
