"""Brokers that are beyond what operators allow: limits of brokers, and caps of topics."""

from collections.abc import Iterator, Mapping
from typing import Final

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.placement.topic_spread import cap_violations

_CAP_KEY: Final = "loadBalancerTopicPartitionsPerBroker"


def broken_limits(
    view: ClusterView, limits: BrokerLimits, topic_cap: int
) -> Mapping[str, tuple[Reason, str]]:
    """By broker, the first limit or cap that it exceeds, in words; draining ones give anyway."""
    found = {
        broker.broker_id: (Reason.CAPACITY, text)
        for broker in _able(view)
        if (text := limits.of(broker.broker_id).excess(broker.held)) is not None
    }
    for broker_id, topic, count in cap_violations(view, topic_cap):
        text = f"{count} partitions of {topic}, at most {topic_cap} ({_CAP_KEY})"
        found.setdefault(broker_id, (Reason.TOPIC_SPREAD, text))
    return found


def is_cluster_full(view: ClusterView, limits: BrokerLimits) -> bool:
    """Whether every broker that could receive is beyond a limit."""
    able = list(_able(view))
    return bool(able and limits) and all(
        limits.of(broker.broker_id).excess(broker.held) is not None for broker in able
    )


def limit_skips(view: ClusterView, limits: BrokerLimits) -> list[Skip]:
    """A skip for each broker beyond its limits, and one where no broker is left to receive."""
    if not limits:
        return []
    broken = broken_limits(view, limits, 0)
    skips = [
        Skip(
            broker_id,
            Reason.CAPACITY,
            f"{text} (loadBalancerBrokerLimits): until below, it receives nothing",
        )
        for broker_id, (_, text) in broken.items()
    ]
    if is_cluster_full(view, limits):
        text = (
            f"all {len(skips)} brokers are beyond their limits (loadBalancerBrokerLimits): no load "
            "moves until there are more brokers"
        )
        skips.append(Skip("cluster", Reason.CAPACITY, text))
    return skips


def _able(view: ClusterView) -> Iterator[BrokerView]:
    return (broker for _, broker in sorted(view.brokers.items()) if not broker.is_draining)
