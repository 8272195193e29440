"""Bundles that exceed a limit and should be split, and topics that no split helps."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Reason, Skip, Split, Unload
from broker_ctl.core.cluster.imbalance import mean_usage
from broker_ctl.core.cluster.view import BundleView, ClusterView, until_text
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import TopicRate, range_equally_divide
from broker_ctl.errors import BundleGone

# Topics that alone are too much: no split and no move of their bundle helps (docs: hot-topics).


# Share of a bundle's traffic from which on one topic has nearly all of it.
DOMINANT_RATIO: Final = 0.9
REMEDY: Final = (
    "splits and moves do not help; more partitions do, or for a partition other message keys, or "
    "batching by its producers"
)


@dataclass(frozen=True, slots=True)
class HottestTopic:
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


def hot_topics(view: ClusterView, most_usage: float) -> Mapping[Bundle, HottestTopic]:
    """Bundles above ``most_usage`` of a mean broker whose traffic is that of one topic."""
    found: dict[Bundle, HottestTopic] = {}
    for bundle_view in view.bundles.values():
        usage_ratio = bundle_view.load_vector.usage_ratio
        if usage_ratio > most_usage and (what := hot_topic_of(bundle_view)):
            found[bundle_view.bundle] = HottestTopic(bundle_view.bundle, usage_ratio, what)
    return found


# Finds bundles that exceed a limit and should be split (docs: pulsar-split-task).


_BY_TRAFFIC: Final = frozenset({Reason.BROKER_SHARE, Reason.MSG_RATE, Reason.BANDWIDTH})

LIMIT_KEYS: Final = {
    Reason.BROKER_SHARE: "loadBalancerNamespaceBundleMaxBrokerPercentage",
    Reason.TOPICS: "loadBalancerNamespaceBundleMaxTopics",
    Reason.SESSIONS: "loadBalancerNamespaceBundleMaxSessions",
    Reason.MSG_RATE: "loadBalancerNamespaceBundleMaxMsgRate",
    Reason.BANDWIDTH: "loadBalancerNamespaceBundleMaxBandwidthMbytes",
}


@dataclass(frozen=True, slots=True)
class _Excess:
    """The first limit that a bundle exceeds, and its largest excess over any limit."""

    bundle: Bundle
    owner: str
    topics: int
    last_split_s: float | None
    reason: Reason
    detail: str
    times: float
    hot_topic: str

    @property
    def is_by_traffic(self) -> bool:
        """Return whether its traffic is too much, and not the number of its topics."""
        return self.reason in _BY_TRAFFIC


def observe(hits: Streaks[Bundle], view: ClusterView, rules: SplitRules) -> Streaks[Bundle]:
    """Return, after this round, for how many consecutive rounds each bundle exceeded a limit."""
    most_usage = max_bundle_usage(view, rules)
    bundles = view.bundles.values()
    above = [
        bundle_view.bundle for bundle_view in bundles if _is_above(bundle_view, rules, most_usage)
    ]
    unjudged = [bundle_view.bundle for bundle_view in bundles if bundle_view.current is None]
    return hits.after(above, unjudged)


def candidates(
    view: ClusterView, rules: SplitRules, hits: Streaks[Bundle] | None = None
) -> tuple[Split | Skip, ...]:
    """Return a `Split` or, if it cannot be split, a `Skip` for each bundle above a limit.

    The worst bundle is the first. ``hits`` is the result of `observe` for this round; it matters
    only if ``hit_count`` rounds are tolerated.

    Topics and sessions are judged on the owner's report, rate and bandwidth on the short-term
    average: Pulsar's modular load manager takes the long-term one, which notices a bundle that
    turned hot only after some hundred samples. A bundle that its owner has not reported yet is not
    judged: its averages are from before a move or a split.
    """
    most_usage = max_bundle_usage(view, rules)
    bundles = view.bundles.values()
    found = [
        excess for bundle_view in bundles if (excess := _excess(bundle_view, rules, most_usage))
    ]
    found.sort(key=lambda excess: (-excess.times, excess.bundle))
    pending = Counter(bundle.namespace for bundle in view.splitting)
    chosen = 0
    decisions: list[Split | Skip] = []
    for excess in found:
        # All of them: the end of one alone would change nothing.
        obstacles = [
            *_unfit(view, rules, excess),
            *_waiting(rules, excess.bundle, hits),
            *_limit(view, rules, excess, pending, chosen),
        ]
        if obstacles:
            detail = "; and ".join(text for _, text in obstacles)
            text = f"{detail}; it has {excess.detail}"
            decisions.append(Skip(str(excess.bundle), obstacles[0][0], text))
            continue
        pending[excess.bundle.namespace] += 1
        chosen += 1
        decisions.append(_split(excess, rules))
    return tuple(decisions)


def max_bundle_usage(view: ClusterView, rules: SplitRules) -> float:
    """Return the maximum usage of a bundle, in mean brokers; infinity without a limit."""
    if rules.max_share_ratio <= 0:
        return math.inf
    return max(rules.max_share_ratio * mean_usage(view), rules.least_usage_ratio)


def _is_above(bundle_view: BundleView, rules: SplitRules, most_usage: float) -> bool:
    """Return whether any limit is exceeded: a fast check, since nearly always none is."""
    current = bundle_view.current
    if current is None or bundle_view.owner is None:
        return False
    average = bundle_view.load.short
    return (
        0 < rules.max_topics < current.topics
        or 0 < rules.max_sessions < current.sessions
        or 0 < rules.max_msg_rate < average.msg_rate
        or 0 < rules.max_bandwidth_bytes < average.throughput
        or bundle_view.load_vector.usage_ratio > most_usage
    )


def _excess(bundle_view: BundleView, rules: SplitRules, most_usage: float) -> _Excess | None:
    current, average, usage = (
        bundle_view.current,
        bundle_view.load.short,
        bundle_view.load_vector.usage_ratio,
    )
    if (
        current is None
        or bundle_view.owner is None
        or not _is_above(bundle_view, rules, most_usage)
    ):
        return None
    measures = (
        (Reason.BROKER_SHARE, usage, most_usage, ""),
        (Reason.TOPICS, current.topics, rules.max_topics, "topics"),
        (Reason.SESSIONS, current.sessions, rules.max_sessions, "sessions"),
        (Reason.MSG_RATE, average.msg_rate, rules.max_msg_rate, "msg/s"),
        (Reason.BANDWIDTH, average.throughput, rules.max_bandwidth_bytes, ""),
    )
    above = [measure for measure in measures if 0 < measure[2] < measure[1]]
    reason, value, limit, unit = above[0]
    if reason is Reason.BANDWIDTH:
        detail = (
            f"{throughput_text(value)}, more than {throughput_text(limit)} ({LIMIT_KEYS[reason]})"
        )
    elif reason is Reason.BROKER_SHARE:
        detail = (
            f"{value:.1%} of a broker's capacity, more than {limit:.1%} "
            "(loadBalancerNamespaceBundleMaxBrokerPercentage of the mean usage)"
        )
    else:
        detail = f"{value:,.0f} {unit}, more than {limit:,.0f} ({LIMIT_KEYS[reason]})"
    return _Excess(
        bundle_view.bundle,
        bundle_view.owner,
        current.topics,
        bundle_view.last_split_s,
        reason,
        detail,
        max(value / limit for _, value, limit, _ in above),
        hot_topic_of(bundle_view),
    )


def _unfit(view: ClusterView, rules: SplitRules, excess: _Excess) -> list[tuple[Reason, str]]:
    """Return why this bundle cannot be split, regardless of other splits."""
    bundle, topics = excess.bundle, excess.topics
    ends_s = -math.inf if excess.last_split_s is None else excess.last_split_s + rules.cool_down_s
    obstacles = (
        (bundle.namespace.is_pinned, Reason.PINNED, "it belongs to its broker for good"),
        (
            view.is_busy(bundle),
            Reason.MOVING,
            "a move or a split of it is under way, until that ends",
        ),
        (not view.is_in_ring(bundle), Reason.GONE, "it is not a bundle of its namespace any more"),
        (
            excess.is_by_traffic and bool(excess.hot_topic),
            Reason.HOT_TOPIC,
            f"{excess.hot_topic}; {REMEDY}",
        ),
        (
            topics < rules.min_topics,
            Reason.TOO_FEW_TOPICS,
            f"fewer than {rules.min_topics} topics, until it has more",
        ),
        (not bundle.range.can_split, Reason.INDIVISIBLE, "its range is a single hash"),
        (
            view.taken_at_s < ends_s,
            Reason.COOLING_DOWN,
            f"it is new, and rests {until_text(view, ends_s)} (statsUpdateFrequencyInSecs)",
        ),
    )
    return [(reason, detail) for stands, reason, detail in obstacles if stands]


def _waiting(
    rules: SplitRules, bundle: Bundle, hits: Streaks[Bundle] | None
) -> list[tuple[Reason, str]]:
    """Return why this bundle must exceed its limit in more rounds: it may be a mere peak."""
    count = 0 if hits is None else hits.of(bundle)
    if rules.hit_count <= 0 or count > rules.hit_count:
        return []
    text = (
        f"above a limit in {count} rounds in a row, until {rules.hit_count + 1} "
        "(loadBalancerNamespaceBundleSplitConditionHitCountThreshold)"
    )
    return [(Reason.HIT_COUNT, text)]


def _limit(
    view: ClusterView,
    rules: SplitRules,
    excess: _Excess,
    pending: Counter[Namespace],
    chosen: int,
) -> list[tuple[Reason, str]]:
    """Return why this bundle must wait for other splits."""
    found: list[tuple[Reason, str]] = []
    namespace = excess.bundle.namespace
    # A namespace that is gone has no ring, which stands among the reasons already.
    ring = view.rings.get(namespace)
    count = 0 if ring is None else len(ring.bundles) + pending[namespace]
    if count >= rules.max_bundles_per_namespace:
        text = (
            f"{namespace} has {count} bundles, the most "
            "(loadBalancerNamespaceMaximumBundles), until some are merged"
        )
        found.append((Reason.MAX_BUNDLES, text))
    if chosen >= rules.max_per_cycle:
        text = (
            f"{chosen} splits are planned, the most of a cycle "
            "(loadBalancerMaxNumberOfBundlesToSplitPerCycle), until the next one"
        )
        found.append((Reason.CYCLE_LIMIT, text))
    return found


def _split(excess: _Excess, rules: SplitRules) -> Split:
    is_share = excess.reason is Reason.BROKER_SHARE
    algorithm = rules.share_algorithm if is_share else rules.algorithm
    # Only the owner knows the topics, so algorithms that need them run there.
    is_known = algorithm == range_equally_divide.__name__
    boundaries = excess.bundle.range.middle if is_known else ()
    return Split(excess.bundle, excess.owner, algorithm, boundaries, excess.reason, excess.detail)


# Proposes to unload the bundles that a split has just made.


_WHY: Final = "a split has just made it"


def unload_new_bundles(view: ClusterView, parts: Iterable[Bundle]) -> list[Unload]:
    """Propose each part that has an owner; the plan decides whether it moves."""
    seen = (view.bundles.get(part) for part in sorted(parts))
    return [
        Unload(one.bundle, one.owner, Reason.NEW_PART, _WHY)
        for one in seen
        if one is not None and one.owner is not None
    ]


# The special names LARGEST and HOT of a bundle to split (docs: pulsar-split-algorithms).


def _topics(bundle_view: BundleView) -> float:
    return bundle_view.load.topics if bundle_view.current is None else bundle_view.current.topics


def _throughput(bundle_view: BundleView) -> float:
    # Of a bundle that was never measured only Pulsar's default is known.
    return bundle_view.load.long.throughput if bundle_view.load.long.samples else 0.0


_BY_NAME: Final[Mapping[str, Callable[[BundleView], float]]] = MappingProxyType(
    {"LARGEST": _topics, "HOT": _throughput}
)
SPECIAL_NAMES: Final = tuple(_BY_NAME)


def special_bundle(view: ClusterView, namespace: Namespace, name: str) -> Bundle:
    """Find ``LARGEST``, the bundle with most topics, or ``HOT``, with the highest throughput.

    Raises:
        BundleGone: no bundle of the namespace has topics or throughput.
    """
    measure = _BY_NAME[name]
    found = [
        (measure(bundle_view), bundle_view.bundle)
        for bundle_view in view.bundles.values()
        if bundle_view.bundle.namespace == namespace and view.is_in_ring(bundle_view.bundle)
    ]
    # Of equals the first on the ring.
    value, bundle = min(found, key=lambda one: (-one[0], one[1]), default=(0.0, None))
    if bundle is None or value <= 0:
        raise BundleGone(f"{name}: nothing was reported of the bundles of {namespace} yet")
    return bundle
