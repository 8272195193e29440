"""Filters that spread the partitions of a topic over brokers.

Hard: a cap of the partitions of a topic on a broker (loadBalancerTopicPartitionsPerBroker). Soft:
the brokers with the fewest partitions beyond an even share are preferred.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.topic_partitions import PartitionCounts
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.filter_result import FilterResult, Rejection


def topic_cap(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers that stay within the cap with the bundle, and its present carrier."""
    added = view.constraints.topics.of(bundle) if rules.topic_cap else {}
    if not added:
        return FilterResult(tuple(candidates))
    carrier = view.carrier(bundle) if bundle in view.bundles else None

    def reject(broker_id: str) -> Rejection | None:
        if broker_id == carrier:
            return None
        held = view.brokers[broker_id].partitions
        for topic, count in sorted(added.items()):
            have = held.get(topic, 0) + count
            if have > rules.topic_cap:
                words = f"would have {have} partitions of {topic}, at most {rules.topic_cap}"
                return Rejection(Reason.TOPIC_SPREAD, words)
        return None

    return FilterResult.by(candidates, reject)


def topic_spread(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept the brokers with the fewest partitions of the bundle's topics beyond an even share."""
    del rules
    added = view.constraints.topics.of(bundle)
    if not added or not candidates:
        return FilterResult(tuple(candidates))
    fair = _fair(view, bundle, added)
    excess = {
        broker_id: sum(
            max(0, view.brokers[broker_id].partitions.get(topic, 0) + count - fair[topic])
            for topic, count in added.items()
        )
        for broker_id in candidates
    }
    least = min(excess.values())

    def reject(broker_id: str) -> Rejection | None:
        if excess[broker_id] == least:
            return None
        words = f"would have {excess[broker_id]} partitions beyond an even share, others {least}"
        return Rejection(Reason.TOPIC_SPREAD, words)

    return FilterResult.by(candidates, reject)


def cap_violations(view: ClusterView, cap: int) -> Iterator[tuple[str, str, int]]:
    """Broker, topic and partitions of each count above the cap, in order of the brokers."""
    if cap:
        for broker_id, broker in sorted(view.brokers.items()):
            for topic, count in sorted(_above(broker, cap).items()):
                yield broker_id, topic, count


def _above(broker: BrokerView, cap: int) -> Mapping[str, int]:
    return {topic: count for topic, count in broker.partitions.items() if count > cap}


def _fair(view: ClusterView, bundle: Bundle, added: PartitionCounts) -> Mapping[str, int]:
    """Partitions of each topic on a broker that has no more than its share."""
    carrying = sum(not broker.is_draining for broker in view.brokers.values())
    total, namespace = view.constraints.topics.total, bundle.namespace
    return {topic: ceil(total(namespace, topic) / max(1, carrying)) for topic in added}
