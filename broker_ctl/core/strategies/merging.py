"""Finds adjacent bundles with so little load that one bundle can replace both."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from broker_ctl.core.cluster.decisions import Merge, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import BundleView, ClusterView, until_text
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.load import NO_LOAD, LoadVector
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import MergeRules, SplitRules
from broker_ctl.core.strategies.splitting.candidates import LIMIT_KEYS, max_bundle_usage

_REST_KEY: Final = "loadBalancerBundleMergeCoolDownMinutes"
_MIN_KEY: Final = "loadBalancerNamespaceMinimumBundles"
# Two adjacent bundles, the lower one first.
Pair = tuple[Bundle, Bundle]


@dataclass(frozen=True, slots=True)
class _ColdPair:
    """Two cold bundles; ``ratio`` is their sum relative to the split limit that is nearest."""

    left: BundleView
    right: BundleView
    ratio: float

    @property
    def bundles(self) -> Pair:
        return self.left.bundle, self.right.bundle

    @property
    def namespace(self) -> Namespace:
        return self.left.bundle.namespace

    @property
    def detail(self) -> str:
        return f"together {self.ratio:.1%} of the nearest split limit"


def observe(hits: Streaks[Pair], view: ClusterView, rules: MergeRules) -> Streaks[Pair]:
    """Return, after this round, for how many consecutive rounds both of a pair were cold."""
    cold: list[Pair] = []
    unknown: list[Pair] = []
    most_usage = max_bundle_usage(view, rules.limits)
    for ring in view.rings.values():
        neighbours = _neighbours(view, ring)
        cold += [pair.bundles for pair in _cold_pairs(neighbours, rules, most_usage)]
        unknown += [
            (left.bundle, right.bundle)
            for left, right in neighbours
            if left.current is None or right.current is None
        ]
    return hits.after(cold, unknown)


def candidates(
    view: ClusterView, rules: MergeRules, hits: Streaks[Pair]
) -> tuple[Merge | Transfer | Skip, ...]:
    """Return a `Merge` for each two cold neighbours of one owner, the coldest pair first.

    If the neighbours have different owners, the result is a `Transfer` to the less loaded owner;
    a later round merges them. A quiet cluster has many cold pairs, so there is only one `Skip` per
    namespace and reason for those that must wait.
    """
    by_namespace: list[list[_ColdPair]] = []
    most_usage = max_bundle_usage(view, rules.limits)
    for ring in view.rings.values():
        pairs = _cold_pairs(_neighbours(view, ring), rules, most_usage)
        by_namespace.append(sorted(pairs, key=_coldness))
    waiting = _ColdPairs()
    merged: Counter[Namespace] = Counter()
    used: set[Bundle] = set()
    decisions: list[Merge | Transfer | Skip] = []
    for pair in heapq.merge(*by_namespace, key=_coldness):
        if not used.isdisjoint(pair.bundles):
            continue
        # All of them: the end of one alone would change nothing.
        obstacles = [
            *_unfit(view, rules, pair),
            *_early(rules, hits.of(pair.bundles)),
            *_limit(view, rules, pair.namespace, merged),
        ]
        decision: Merge | Transfer | tuple[Reason, str]
        if obstacles:
            decision = obstacles[0][0], "; and ".join(text for _, text in obstacles)
        else:
            decision = _decision(view, pair)
        if isinstance(decision, tuple):
            waiting.add(pair, *decision)
            continue
        used.update(pair.bundles)
        merged[pair.namespace] += 1
        decisions.append(decision)
    return (*decisions, *waiting.skips())


# What is cold.


def _neighbours(view: ClusterView, ring: Ring) -> list[tuple[BundleView, BundleView]]:
    """Of one namespace, by range."""
    bundle_view = map(view.bundles.get, ring.bundles)
    return [(left, right) for left, right in pairwise(bundle_view) if left and right]


def _cold_pairs(
    neighbours: Iterable[tuple[BundleView, BundleView]], rules: MergeRules, most_usage: float
) -> list[_ColdPair]:
    """A bundle without an owner, or without a report of its owner, is not judged."""
    found: list[_ColdPair] = []
    for left, right in neighbours:
        two = [_ratios(each, rules.limits, most_usage) for each in (left, right)]
        if all(_is_cold(each, rules.cold_ratio) for each in two):
            together = max(map(sum, zip(*two, strict=True)))
            found.append(_ColdPair(left, right, together))
    return found


def _coldness(pair: _ColdPair) -> tuple[float, Pair]:
    """The least first."""
    return pair.ratio, pair.bundles


def _is_cold(ratios: tuple[float, ...], cold_ratio: float) -> bool:
    return bool(ratios) and max(ratios) < cold_ratio


def _ratios(bundle_view: BundleView, limits: SplitRules, most_usage: float) -> tuple[float, ...]:
    """How much it has of each limit that is set, in one order; empty: it cannot be judged.

    Rates are the higher of now and the short-term average: neither a lull nor a morning that has
    just begun makes a bundle cold.
    """
    return tuple(_shares(bundle_view, limits, most_usage).values())


def _shares(bundle_view: BundleView, limits: SplitRules, most_usage: float) -> dict[Reason, float]:
    current, average = bundle_view.current, bundle_view.load.short
    if current is None or bundle_view.owner is None:
        return {}
    measures = (
        (Reason.TOPICS, current.topics, limits.max_topics),
        (Reason.SESSIONS, current.sessions, limits.max_sessions),
        (Reason.MSG_RATE, max(current.msg_rate, average.msg_rate), limits.max_msg_rate),
        (
            Reason.BANDWIDTH,
            max(current.throughput, average.throughput),
            limits.max_bandwidth_bytes,
        ),
        (Reason.BROKER_SHARE, bundle_view.load_vector.usage_ratio, most_usage),
    )
    return {what: value / limit for what, value, limit in measures if 0 < limit < math.inf}


def split_again(view: ClusterView, limits: SplitRules, left: Bundle, right: Bundle) -> str:
    """Why the leader would split what two bundles are merged into; empty: it would not."""
    most_usage = max_bundle_usage(view, limits)
    both = [view.bundles[each] for each in (left, right) if each in view.bundles]
    shares = [_shares(each, limits, most_usage) for each in both]
    together = {
        what: sum(each.get(what, 0.0) for each in shares) for each in shares for what in each
    }
    most = max(together, key=lambda what: together[what], default=None)
    if most is None or together[most] <= 1:
        return ""
    return (
        f"the leader would split it again: together they have {together[most]:.0%} of "
        f"{LIMIT_KEYS[most]}"
    )


# What stands against it.


def _unfit(view: ClusterView, rules: MergeRules, pair: _ColdPair) -> list[tuple[Reason, str]]:
    young_s = min(_age_s(view, bundle_view) for bundle_view in (pair.left, pair.right))
    ends_s = view.taken_at_s - young_s + rules.cool_down_s
    obstacles = (
        (pair.namespace.is_pinned, Reason.PINNED, "they belong to their broker for good"),
        (
            any(map(view.is_busy, pair.bundles)),
            Reason.MOVING,
            "a move or a split is under way, until that ends",
        ),
        (
            young_s < rules.cool_down_s,
            Reason.COOLING_DOWN,
            f"one was made {young_s:.0f} s ago, and rests {until_text(view, ends_s)} ({_REST_KEY})",
        ),
        (
            pair.ratio >= rules.merged_ratio,
            Reason.MERGED_TOO_LARGE,
            f"{pair.detail}, until below {rules.merged_ratio:.0%}",
        ),
    )
    return [(reason, detail) for stands, reason, detail in obstacles if stands]


def _age_s(view: ClusterView, bundle_view: BundleView) -> float:
    return (
        math.inf if bundle_view.last_split_s is None else view.taken_at_s - bundle_view.last_split_s
    )


def _early(rules: MergeRules, count: int) -> list[tuple[Reason, str]]:
    if count > rules.hit_count:
        return []
    text = (
        f"cold in {count} rounds in a row, until {rules.hit_count + 1} "
        "(loadBalancerBundleMergeConditionHitCountThreshold)"
    )
    return [(Reason.HIT_COUNT, text)]


def _limit(
    view: ClusterView, rules: MergeRules, namespace: Namespace, merged: Counter[Namespace]
) -> list[tuple[Reason, str]]:
    found: list[tuple[Reason, str]] = []
    left = len(view.rings[namespace].bundles) - merged[namespace]
    if left <= rules.min_bundles:
        text = f"{left} bundles, the fewest ({_MIN_KEY}), until there are more"
        found.append((Reason.MIN_BUNDLES, text))
    if merged.total() >= rules.max_per_cycle:
        text = (
            f"{merged.total()} merges are planned, the most of a cycle "
            "(loadBalancerMaxNumberOfBundlesToMergePerCycle), until the next one"
        )
        found.append((Reason.CYCLE_LIMIT, text))
    return found


def _decision(view: ClusterView, pair: _ColdPair) -> Merge | Transfer | tuple[Reason, str]:
    left, right = pair.left, pair.right
    assert left.owner is not None
    assert right.owner is not None
    if left.owner == right.owner:
        return Merge(left.bundle, right.bundle, left.owner, Reason.COLD, pair.detail)
    # Downhill, and never to one on its way out.
    stays, goes = sorted((left, right), key=lambda bundle_view: _standing(view, bundle_view.owner))
    receiver = view.brokers.get(stays.owner or "")
    if receiver is None or receiver.is_draining:
        text = f"{left.owner} and {right.owner} own them, until one of these can receive"
        return Reason.NO_BROKER, text
    assert goes.owner is not None
    return Transfer(
        bundle=goes.bundle,
        source=goes.owner,
        destination=receiver.broker_id,
        reason=Reason.COLD,
        detail=f"to be merged with {stays.bundle.range}: {pair.detail}",
        load_vector=goes.load_vector,
        source_before=_expected(view, goes.owner),
        destination_before=receiver.expected,
    )


def _standing(view: ClusterView, broker_id: str | None) -> tuple[bool, float, float, str]:
    """The least is the better home for both."""
    broker = view.brokers.get(broker_id or "")
    if broker is None:
        return True, math.inf, math.inf, broker_id or ""
    load = broker.expected
    return broker.is_draining, load.usage_ratio, load.throughput_bytes, broker.broker_id


def _expected(view: ClusterView, broker_id: str) -> LoadVector:
    broker = view.brokers.get(broker_id)
    return NO_LOAD if broker is None else broker.expected


class _ColdPairs:
    """Cold pairs that are left, one line for each namespace and reason."""

    def __init__(self) -> None:
        self._first: dict[tuple[Namespace, Reason], tuple[_ColdPair, str]] = {}
        self._counts: Counter[tuple[Namespace, Reason]] = Counter()

    def add(self, pair: _ColdPair, reason: Reason, detail: str) -> None:
        """One more; of each kind the coldest comes first."""
        key = pair.namespace, reason
        self._counts[key] += 1
        self._first.setdefault(key, (pair, detail))

    def skips(self) -> Iterator[Skip]:
        """One skip for each namespace and reason."""
        for (namespace, reason), (pair, detail) in self._first.items():
            count = self._counts[namespace, reason]
            left, right = pair.bundles
            text = f"{left.range} and {right.range}: {detail}"
            more = f", and {count - 1} more cold pairs" if count > 1 else ""
            yield Skip(str(namespace), reason, text + more)
