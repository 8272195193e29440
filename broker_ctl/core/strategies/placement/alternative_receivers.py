"""Who else may carry a bundle that its broker would give up.

Asked before a bundle is shed: what may live nowhere else stays (docs: pulsar-leader-tasks,
pulsar-isolation).
"""

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.filter_result import FilterResult, Rejection
from broker_ctl.core.strategies.placement.filters import anti_affinity, members
from broker_ctl.core.strategies.placement.pipeline import filter_brokers


def elsewhere(
    view: ClusterView, bundle: Bundle, source: str, rules: PlacementRules
) -> FilterResult:
    """Those that may have it instead of ``source``, and why the others may not.

    Anti-affinity binds here, where it only prefers when a bundle has no owner: moving is no must.
    """
    others = view.receivers(rules.report_ttl_s, source)
    allowed = filter_brokers(view, bundle, others, rules)
    if not allowed.staying:
        return allowed
    stays = _group_keeps(view, bundle, source, allowed.staying)
    if stays is not None:
        return allowed.then(FilterResult.by(allowed.staying, lambda _: stays))
    return allowed.then(anti_affinity(view, bundle, allowed.staying, rules))


def has_elsewhere(view: ClusterView, bundle: Bundle, source: str, rules: PlacementRules) -> bool:
    """Whether anybody may have it instead of ``source``."""
    return bool(elsewhere(view, bundle, source, rules).staying)


def _group_keeps(
    view: ClusterView, bundle: Bundle, source: str, others: tuple[str, ...]
) -> Rejection | None:
    """Where its group is spread evenly already, no namespace of it moves."""
    group = view.constraints.group_of.get(bundle.namespace)
    if group is None:
        return None
    counts = members(view, group, (source, *others))
    least = min(counts.values())
    if least == 0 or max(counts.values()) > least:
        return None
    words = f"serves {least} namespaces of group {group}, as {source} does"
    return Rejection(Reason.ANTI_AFFINITY, words)
