"""From those that may receive a bundle to the one that does.

Docs: pulsar-placement. Some filters say who must not receive it, others only who had
better not: where these leave nobody, or nobody but an overloaded broker, they are forgotten.
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
    even_spread,
    home_of,
    isolation,
    latest_version,
    max_topics,
    pinned,
)
from broker_ctl.core.strategies.placement.policy import Choice, PlacementPolicy
from broker_ctl.core.strategies.placement.round_robin import RoundRobin

_MUST: Final[tuple[Filter, ...]] = (availability, pinned, isolation)
_PREFERRED: Final[tuple[Filter, ...]] = (max_topics, anti_affinity, even_spread, latest_version)
_IN_TURN: Final = RoundRobin()


def place(
    view: ClusterView,
    bundle: Bundle,
    candidates: Sequence[str],
    policy: PlacementPolicy,
    rules: PlacementRules,
) -> Choice:
    """Choose the receiver of ``bundle`` out of ``candidates``.

    A bundle that is on its way somewhere goes there, and a pinned one to its broker.
    """
    move = view.moves.get(bundle)
    if move and move.destination in view.brokers:
        return Choice(move.destination, Reason.RESERVED, "it is on its way there")
    allowed = filter_brokers(view, bundle, candidates, rules)
    if not allowed.staying:
        return Choice(None, allowed.reason, allowed.told("no broker is left to receive it"))
    if allowed.staying == (home_of(bundle.namespace),):
        return Choice(allowed.staying[0], Reason.PINNED, "it belongs there")
    if bundle.namespace in rules.excluded_namespaces:
        policy = _IN_TURN
    preferred = allowed.then(_sifted(_PREFERRED, view, bundle, allowed.staying, rules))
    kept = preferred if preferred.staying else allowed
    choice = policy.select(view, bundle, kept.staying, rules)
    if len(kept.staying) < len(allowed.staying) and _is_overloaded(view, choice, rules):
        kept = allowed
        choice = policy.select(view, bundle, kept.staying, rules)
    return Choice(choice.broker_id, choice.reason, kept.told(choice.detail))


def filter_brokers(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those that may receive it at all."""
    return _sifted(_MUST, view, bundle, candidates, rules)


def _sifted(
    filters: Sequence[Filter],
    view: ClusterView,
    bundle: Bundle,
    candidates: Sequence[str],
    rules: PlacementRules,
) -> FilterResult:
    sifted = FilterResult(tuple(candidates))
    for each in filters:
        sifted = sifted.then(each(view, bundle, sifted.staying, rules))
    return sifted


def _is_overloaded(view: ClusterView, choice: Choice, rules: PlacementRules) -> bool:
    if choice.broker_id is None:
        return False
    return view.brokers[choice.broker_id].expected.usage_ratio > rules.overloaded_ratio
