"""Brokers that may receive a bundle which its owner would unload.

A strategy checks this before it sheds a bundle: a bundle without an alternative stays (docs:
pulsar-leader-tasks, pulsar-isolation).
"""

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.filter_result import FilterResult, Rejection
from broker_ctl.core.strategies.placement.filters import anti_affinity, namespace_counts
from broker_ctl.core.strategies.placement.pipeline import filter_brokers


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
