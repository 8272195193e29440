"""Finds adjacent bundles with so little load that one bundle can replace both.

Pulsar never merges: a namespace that was split for a busy day keeps its bundles for ever, and no
bundle of it is split any more once it has the maximum number (docs: pulsar-split-task). Bundles
are merged only if they stay far below the limits of a split for many consecutive rounds; otherwise
splits and merges would alternate.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from broker_ctl.core.cluster.decisions import Merge, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import NO_LOAD, LoadVector
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.core.model.streaks import Streaks
from broker_ctl.core.rules.rules import MergeRules, SplitRules
from broker_ctl.core.strategies.splitting.candidates import max_bundle_usage

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
    waiting = _Waiting()
    merged: Counter[Namespace] = Counter()
    used: set[Bundle] = set()
    decisions: list[Merge | Transfer | Skip] = []
    for pair in heapq.merge(*by_namespace, key=_coldness):
        if not used.isdisjoint(pair.bundles):
            continue
        obstacle = (
            _unfit(view, rules, pair)
            or _early(rules, hits.of(pair.bundles))
            or _limit(view, rules, pair.namespace, merged)
        )
        decision = obstacle or _decision(view, pair)
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
    current, average = bundle_view.current, bundle_view.load.short
    if current is None or bundle_view.owner is None:
        return ()
    measures = (
        (current.topics, limits.max_topics),
        (current.sessions, limits.max_sessions),
        (max(current.msg_rate, average.msg_rate), limits.max_msg_rate),
        (max(current.throughput, average.throughput), limits.max_bandwidth_bytes),
        (bundle_view.load_vector.usage_ratio, most_usage),
    )
    return tuple(value / limit for value, limit in measures if 0 < limit < math.inf)


# What stands against it.


def _unfit(view: ClusterView, rules: MergeRules, pair: _ColdPair) -> tuple[Reason, str] | None:
    young_s = min(_age_s(view, bundle_view) for bundle_view in (pair.left, pair.right))
    obstacles = (
        (pair.namespace.is_pinned, Reason.PINNED, "they belong to their broker"),
        (any(map(view.is_busy, pair.bundles)), Reason.MOVING, "a move or a split is under way"),
        (young_s < rules.cool_down_s, Reason.COOLING_DOWN, f"one was made {young_s:.0f} s ago"),
        (pair.ratio >= rules.merged_ratio, Reason.MERGED_TOO_LARGE, pair.detail),
    )
    return next(((reason, detail) for stands, reason, detail in obstacles if stands), None)


def _age_s(view: ClusterView, bundle_view: BundleView) -> float:
    return (
        math.inf if bundle_view.last_split_s is None else view.taken_at_s - bundle_view.last_split_s
    )


def _early(rules: MergeRules, count: int) -> tuple[Reason, str] | None:
    if count > rules.hit_count:
        return None
    return Reason.HIT_COUNT, f"cold in {count} of {rules.hit_count + 1} rounds in a row"


def _limit(
    view: ClusterView, rules: MergeRules, namespace: Namespace, merged: Counter[Namespace]
) -> tuple[Reason, str] | None:
    left = len(view.rings[namespace].bundles) - merged[namespace]
    if left <= rules.min_bundles:
        return Reason.MIN_BUNDLES, f"{left} bundles of at least {rules.min_bundles}"
    if merged.total() >= rules.max_per_cycle:
        return Reason.CYCLE_LIMIT, f"{merged.total()} merges are planned in this cycle"
    return None


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
        return Reason.NO_BROKER, f"{left.owner} and {right.owner} own them, and neither can receive"
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


class _Waiting:
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
