"""Chooses the receiver of a bundle: mandatory filters, preferences, strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Reason, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import (
    Filter,
    FilterResult,
    Rejection,
    anti_affinity,
    availability,
    capacity,
    even_spread,
    home_broker,
    isolation,
    latest_version,
    max_topics,
    namespace_counts,
    pinned,
    topic_cap,
    topic_spread,
)
from broker_ctl.core.strategies.placement.strategies import Choice, PlacementPolicy, RoundRobin

# Chooses the receiver of a bundle: mandatory filters, preferences, strategy.
#
# Docs: pulsar-placement. If the preferences leave no broker, or only overloaded ones, they are
# dropped.


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


# Bundles on brokers that an isolation policy does not allow, and the moves that would mend that.
#
# A policy judges a bundle when it is placed. A policy that is set later, primaries that come back
# while secondaries serve, and an owner that took a bundle before it knew the policy leave bundles
# where they would not be placed today (docs: pulsar-isolation).


@dataclass(frozen=True, slots=True)
class MisplacedBundle:
    """A bundle whose owner a policy does not allow.

    Attributes:
        why: what the policy says of the owner, without the owner's name.
    """

    bundle: Bundle
    broker_id: str
    why: str

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"bundle": str(self.bundle), "owner": self.broker_id, "why": self.why}


def misplaced_bundles(view: ClusterView, rules: PlacementRules) -> tuple[MisplacedBundle, ...]:
    """The misplaced bundles of all live owners, the heaviest first; pinned ones never are."""
    verdicts: dict[tuple[Namespace, str], str] = {}
    found = []
    for broker_id, broker in view.brokers.items():
        for bundle in broker.owned:
            key = bundle.namespace, broker_id
            # Policies judge namespaces: thousands of bundles may have the same one.
            if key not in verdicts:
                verdicts[key] = _verdict(view, bundle, broker_id, rules)
            if verdicts[key] and not view.bundles[bundle].is_pinned:
                found.append(MisplacedBundle(bundle, broker_id, verdicts[key]))
    found.sort(key=lambda one: (-_throughput(view, one.bundle), one.bundle))
    return tuple(found)


def healing_proposals(view: ClusterView, misplaced: Sequence[MisplacedBundle]) -> list[Unload]:
    """Unload misplaced bundles that are not moving already; the plan chooses their receivers."""
    return [
        Unload(one.bundle, one.broker_id, Reason.ISOLATION, f"{one.broker_id} {one.why}")
        for one in misplaced
        if not view.is_busy(one.bundle)
    ]


def _verdict(view: ClusterView, bundle: Bundle, broker_id: str, rules: PlacementRules) -> str:
    """What a policy says against the owner; empty: nothing."""
    rejection = isolation(view, bundle, (broker_id,), rules).rejected.get(broker_id)
    # The kind of topics is not a policy's: a bundle may have both kinds.
    if rejection is None or rejection.reason is not Reason.ISOLATION:
        return ""
    return rejection.words


def _throughput(view: ClusterView, bundle: Bundle) -> float:
    return view.bundles[bundle].load_vector.throughput_bytes


# Brokers that may receive a bundle which its owner would unload.
#
# A strategy checks this before it sheds a bundle: a bundle without an alternative stays (docs:
# pulsar-leader-tasks, pulsar-isolation).


def alternative_receivers(
    view: ClusterView, bundle: Bundle, source: str, rules: PlacementRules
) -> FilterResult:
    """Return the brokers that may own the bundle instead of ``source``; others are rejected.

    Anti-affinity is mandatory here; for a bundle without an owner it is a preference.
    """
    others = view.receivers(rules.report_ttl_s, source)
    allowed = filter_brokers(view, bundle, others, rules)
    if not allowed.feasible:
        return allowed
    group_rejection = _group_rejection(view, bundle, source, allowed.feasible)
    if group_rejection is not None:
        return allowed.then(FilterResult.by(allowed.feasible, lambda _: group_rejection))
    return allowed.then(anti_affinity(view, bundle, allowed.feasible, rules))


def has_alternative(view: ClusterView, bundle: Bundle, source: str, rules: PlacementRules) -> bool:
    """Return whether any broker may own the bundle instead of ``source``."""
    return bool(alternative_receivers(view, bundle, source, rules).feasible)


def _group_rejection(
    view: ClusterView, bundle: Bundle, source: str, others: tuple[str, ...]
) -> Rejection | None:
    """Return a rejection if the anti-affinity group is already spread evenly."""
    group = view.constraints.group_of.get(bundle.namespace)
    if group is None:
        return None
    counts = namespace_counts(view, group, (source, *others))
    least = min(counts.values())
    if least == 0 or max(counts.values()) > least:
        return None
    words = f"serves {least} namespaces of group {group}, as {source} does"
    return Rejection(Reason.ANTI_AFFINITY, words)
