"""Namespaces of one anti-affinity group go to different brokers.

Docs: pulsar-isolation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection


def anti_affinity(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those with the fewest namespaces of its group, in the failure domains with the fewest."""
    group = view.constraints.group_of.get(bundle.namespace)
    if group is None or not candidates:
        return FilterResult(tuple(candidates))
    counts = members(view, group, candidates)
    in_domain = _of_least_domains(view, group, counts) if rules.has_failure_domains else None
    kept = FilterResult(tuple(candidates)) if in_domain is None else in_domain
    least = min(counts[broker_id] for broker_id in kept.staying)

    def refusal(broker_id: str) -> Rejection | None:
        count = counts[broker_id]
        if count == least:
            return None
        words = f"serves {count} namespaces of group {group}, others {least}"
        return Rejection(Reason.ANTI_AFFINITY, words)

    return kept.then(FilterResult.by(kept.staying, refusal))


def members(view: ClusterView, group: str, brokers: Sequence[str]) -> Mapping[str, int]:
    """How many namespaces of a group each broker serves."""
    group_of = view.constraints.group_of
    return {
        broker_id: sum(group_of.get(name) == group for name in view.brokers[broker_id].served)
        for broker_id in brokers
    }


def _of_least_domains(view: ClusterView, group: str, counts: Mapping[str, int]) -> FilterResult:
    domain = view.constraints.domain
    sums: Counter[str] = Counter()
    for broker_id, count in counts.items():
        sums[domain(broker_id)] += count
    least = min(sums.values())

    def refusal(broker_id: str) -> Rejection | None:
        count = sums[domain(broker_id)]
        if count == least:
            return None
        where = f"failure domain {domain(broker_id)}" if domain(broker_id) else "no failure domain"
        words = f"is in {where} with {count} namespaces of group {group}, others have {least}"
        return Rejection(Reason.ANTI_AFFINITY, words)

    return FilterResult.by(tuple(counts), refusal)
