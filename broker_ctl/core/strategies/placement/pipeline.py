"""Chooses the receiver of a bundle: mandatory filters, preferences, strategy.

Docs: pulsar-placement. If the preferences leave no broker, or only overloaded ones, they are
dropped.
"""

from collections.abc import Sequence
from typing import Final

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.filter_result import Filter, FilterResult
from broker_ctl.core.strategies.placement.filters import (
    anti_affinity,
    availability,
    capacity,
    even_spread,
    home_broker,
    isolation,
    latest_version,
    max_topics,
    pinned,
)
from broker_ctl.core.strategies.placement.policy import Choice, PlacementPolicy
from broker_ctl.core.strategies.placement.round_robin import RoundRobin
from broker_ctl.core.strategies.placement.topic_spread import topic_cap, topic_spread

_REQUIRED: Final[tuple[Filter, ...]] = (availability, pinned, isolation)
_PREFERRED: Final[tuple[Filter, ...]] = (
    max_topics,
    anti_affinity,
    even_spread,
    topic_spread,
    latest_version,
)
_HARD: Final[tuple[Filter, ...]] = (capacity, topic_cap)
_ROUND_ROBIN: Final = RoundRobin()


def place(
    view: ClusterView,
    bundle: Bundle,
    candidates: Sequence[str],
    policy: PlacementPolicy,
    rules: PlacementRules,
) -> Choice:
    """Choose the receiver of ``bundle`` out of ``candidates``.

    A bundle that is being moved goes to its destination, and a pinned one to its home broker.
    """
    move = view.moves.get(bundle)
    if move and move.destination in view.brokers:
        return Choice(move.destination, Reason.RESERVED, "it is on its way there")
    allowed = filter_brokers(view, bundle, candidates, rules)
    if not allowed.feasible:
        return Choice(None, allowed.reason, allowed.explain("no broker is left to receive it"))
    if allowed.feasible == (home_broker(bundle.namespace),):
        return Choice(allowed.feasible[0], Reason.PINNED, "it belongs there")
    if bundle.namespace in rules.excluded_namespaces:
        policy = _ROUND_ROBIN
    preferred = allowed.then(_apply_filters(_PREFERRED, view, bundle, allowed.feasible, rules))
    kept = preferred if preferred.feasible else allowed
    choice = policy.select(view, bundle, kept.feasible, rules)
    if len(kept.feasible) < len(allowed.feasible) and _is_overloaded(view, choice, rules):
        kept = allowed
        choice = policy.select(view, bundle, kept.feasible, rules)
    return Choice(choice.broker_id, choice.reason, kept.explain(choice.detail))


def filter_brokers(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Apply the mandatory filters.

    To serve a bundle that nobody serves is worth more than a limit or a cap: where all brokers
    would exceed one, they do not count for it.
    """
    able = _apply_filters(_REQUIRED, view, bundle, candidates, rules)
    roomy = _apply_filters(_HARD, view, bundle, able.feasible, rules)
    is_served = bundle in view.bundles and view.carrier(bundle) is not None
    return able.then(roomy) if roomy.feasible or is_served else able


def _apply_filters(
    filters: Sequence[Filter],
    view: ClusterView,
    bundle: Bundle,
    candidates: Sequence[str],
    rules: PlacementRules,
) -> FilterResult:
    result = FilterResult(tuple(candidates))
    for each in filters:
        result = result.then(each(view, bundle, result.feasible, rules))
    return result


def _is_overloaded(view: ClusterView, choice: Choice, rules: PlacementRules) -> bool:
    if choice.broker_id is None:
        return False
    return view.brokers[choice.broker_id].expected.usage_ratio > rules.overloaded_ratio
