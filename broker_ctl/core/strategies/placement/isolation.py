"""Namespace isolation policies (docs: pulsar-isolation)."""

from collections.abc import Sequence

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.constraints import IsolationPolicy
from broker_ctl.core.model.names import PERSISTENT
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.pinned import home_of
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection


def isolation(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """The brokers of its policy; without one, those that are nobody's primary.

    The kind of a bundle's topics is that of the topic which somebody asked for (``rules.domain``).
    Where every shared broker is there for the other kind only, one of them will do: the bundle may
    have topics of that kind, too. A policy does not look at the kind.
    """
    if home_of(bundle.namespace) in candidates:
        return FilterResult(tuple(candidates))
    policy = view.constraints.policy_of(bundle.namespace)
    if policy is not None:
        return _of_policy(view, policy, candidates, rules)
    shared = FilterResult.by(candidates, lambda broker_id: _reserved(view, broker_id))
    fit = FilterResult.by(shared.staying, lambda each: _unfit(view.brokers[each], rules.domain))
    if not fit.staying:
        fit = FilterResult.by(shared.staying, lambda broker_id: _idle(view.brokers[broker_id]))
    return shared.then(fit)


def _of_policy(
    view: ClusterView, policy: IsolationPolicy, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    # Counted over the cluster: who has no room at the moment is available all the same.
    able = view.receivers(rules.report_ttl_s)
    available = sum(policy.is_primary(broker_id) for broker_id in able)
    has_failed_over = available < policy.min_available
    few = f"{available} of at least {policy.min_available} primaries are available"

    def refusal(broker_id: str) -> Rejection | None:
        if policy.is_primary(broker_id):
            return None
        if not policy.is_secondary(broker_id):
            words = f"is neither primary nor secondary of policy {policy.name} ({few})"
            return Rejection(Reason.ISOLATION, words)
        if has_failed_over:
            return None
        return Rejection(Reason.ISOLATION, f"is only secondary of policy {policy.name} ({few})")

    return FilterResult.by(candidates, refusal)


def _reserved(view: ClusterView, broker_id: str) -> Rejection | None:
    policy = view.constraints.reserved_by(broker_id)
    if policy is None:
        return None
    return Rejection(Reason.ISOLATION, f"is a primary of policy {policy.name}, for others only")


def _unfit(broker: BrokerView, domain: str) -> Rejection | None:
    takes = broker.takes_persistent if domain == PERSISTENT else broker.takes_non_persistent
    return None if takes else Rejection(Reason.TOPIC_KIND, f"takes no {domain} topics")


def _idle(broker: BrokerView) -> Rejection | None:
    if broker.takes_non_persistent:
        return None
    return Rejection(Reason.TOPIC_KIND, "takes neither kind of topics")
