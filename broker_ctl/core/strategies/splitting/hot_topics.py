"""Topics that alone are too much: no split and no move of their bundle helps (docs: hot-topics)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.core.strategies.splitting.request import TopicRate

# Share of a bundle's traffic from which on one topic has nearly all of it.
DOMINANT_RATIO: Final = 0.9
REMEDY: Final = (
    "splits and moves do not help; more partitions do, or for a partition other message keys, or "
    "batching by its producers"
)


@dataclass(frozen=True, slots=True)
class HotTopic:
    """A bundle whose traffic is that of one topic, and too much.

    Attributes:
        usage_ratio: of a mean broker's capacity.
        what: what is known of the topic.
    """

    bundle: Bundle
    usage_ratio: float
    what: str

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "bundle": str(self.bundle),
            "usage_ratio": self.usage_ratio,
            "detail": f"{self.what}; {REMEDY}",
        }


def dominant_position(rates: Iterable[TopicRate]) -> tuple[int, float] | None:
    """The hash with nearly all traffic, and its share of bytes, or of messages without bytes."""
    topics = list(rates)
    by_bytes = any(topic.throughput_bytes > 0 for topic in topics)
    traffic: dict[int, float] = defaultdict(float)
    for topic in topics:
        traffic[topic.position] += topic.throughput_bytes if by_bytes else topic.msg_rate
    total = sum(traffic.values())
    if total <= 0:
        return None
    position = max(traffic, key=lambda each: (traffic[each], -each))
    share = traffic[position] / total
    return (position, share) if share >= DOMINANT_RATIO else None


def hot_topic_of(bundle_view: BundleView) -> str:
    """What is known of the one topic that has nearly all of a bundle's traffic; empty: of none."""
    if bundle_view.hot_topic:
        return bundle_view.hot_topic
    if bundle_view.current is None or bundle_view.current.topics != 1:
        return ""
    return f"its one topic has {throughput_text(bundle_view.current.throughput)}"


def hot_topics(view: ClusterView, most_usage: float) -> Mapping[Bundle, HotTopic]:
    """Bundles above ``most_usage`` of a mean broker whose traffic is that of one topic."""
    found: dict[Bundle, HotTopic] = {}
    for bundle_view in view.bundles.values():
        usage_ratio = bundle_view.load_vector.usage_ratio
        if usage_ratio > most_usage and (what := hot_topic_of(bundle_view)):
            found[bundle_view.bundle] = HotTopic(bundle_view.bundle, usage_ratio, what)
    return found
