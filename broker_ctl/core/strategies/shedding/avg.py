"""AvgShedder: pairs hot and cool brokers, and evens out each pair (docs: pulsar-shedders)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import fsum
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, participants, too_few
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import AvgRules, DifferenceRules, SheddingRules
from broker_ctl.core.strategies.shedding.policy import (
    Amount,
    Measure,
    build_transfer,
    fitting,
    movable,
    nothing_fits,
    permanent_obstacle,
    rank,
)

# AvgShedder: pairs hot and cool brokers, and evens out each pair (docs: pulsar-shedders).
#
# The hottest broker is paired with the coolest, the second hottest with the second coolest, and
# so on. If a pair has been far apart for some consecutive cycles, part of the difference moves
# from the hot to the cool broker. The proposal names the receiver, so that it cannot be lost
# between shedding and placement (Pulsar kept it in a map whose keys changed their hash). Hits are
# counted per broker, not per pair: a broker that stays the hottest is relieved whichever broker
# it is paired with.
#
# Kept from Pulsar: usage determines the pairs, but traffic the amount, so that a strong broker
# with more traffic at less usage neither gives nor receives; bundles larger than the difference
# stay.


_LOW_KEY: Final = "loadBalancerAvgShedderLowThreshold"
_LOW_HITS_KEY: Final = "loadBalancerAvgShedderHitCountLowThreshold"
_HIGH_HITS_KEY: Final = "loadBalancerAvgShedderHitCountHighThreshold"


@dataclass(frozen=True, slots=True)
class AvgMemory:
    """Hits by broker, and the pairs to even out in this cycle.

    Attributes:
        low_hits: consecutive cycles above the low threshold.
        high_hits: consecutive cycles above the high threshold.
        firing: pairs (hot, cool) with enough hits; their hits are reset.
    """

    low_hits: Mapping[str, int] = field(default_factory=dict)
    high_hits: Mapping[str, int] = field(default_factory=dict)
    firing: tuple[tuple[str, str], ...] = ()

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "low_hits": dict(self.low_hits),
            "high_hits": dict(self.high_hits),
            "firing": [list(pair) for pair in self.firing],
        }


@dataclass(frozen=True, slots=True)
class _BrokerPair:
    source: BrokerView
    destination: BrokerView

    @property
    def ids(self) -> tuple[str, str]:
        return self.source.broker_id, self.destination.broker_id

    @property
    def points(self) -> float:
        difference = self.source.expected.usage_ratio - self.destination.expected.usage_ratio
        # Rounding must not decide whether 55% and 40% are 15 points apart.
        return round(difference * 100, 9)

    @property
    def text(self) -> str:
        ends = (self.source, self.destination)
        texts = [f"{each.broker_id} at {each.expected.usage_ratio:.1%}" for each in ends]
        return f"{' and '.join(texts)} are {self.points:.1f} points apart"


class AvgShedder:
    """Pulsar's default from 5.0 on."""

    def recall(self, row: Mapping[str, Any] | None) -> AvgMemory:
        """The memory that ``to_row`` wrote; an empty one for None."""
        known = row or {}
        return AvgMemory(
            _counts(known.get("low_hits", {})),
            _counts(known.get("high_hits", {})),
            tuple((str(hot), str(cool)) for hot, cool in known.get("firing", ())),
        )

    def observe(self, memory: AvgMemory, view: ClusterView, rules: SheddingRules) -> AvgMemory:
        """Count a hit for both brokers of each pair that is far apart; reset all others to 0."""
        limits = rules.avg
        low_hits: dict[str, int] = {}
        high_hits: dict[str, int] = {}
        firing: list[tuple[str, str]] = []
        for pair in _far_apart(participants(view, rules)[0], limits):
            is_high = pair.points >= limits.high_points
            low = {each: memory.low_hits.get(each, 0) + 1 for each in pair.ids}
            high = {each: memory.high_hits.get(each, 0) + 1 for each in pair.ids if is_high}
            has_enough = (
                max(low.values()) >= limits.low_hits
                or max(high.values(), default=0) >= limits.high_hits
            )
            if has_enough:
                firing.append(pair.ids)
            else:
                low_hits |= low
                high_hits |= high
        return AvgMemory(low_hits, high_hits, tuple(firing))

    def shed(
        self, view: ClusterView, memory: AvgMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Move a part of the difference of each pair that has been far apart for long enough."""
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        pairs = list(_far_apart(brokers, rules.avg))
        if not pairs:
            widest = _pair_brokers(brokers)[0]
            text = f"{widest.text}, until {rules.avg.low_points:g} are ({_LOW_KEY})"
            return (*skipped, Skip("cluster", Reason.BELOW_THRESHOLD, text))
        decisions: list[Decision] = []
        for pair in pairs:
            if pair.ids in memory.firing:
                decisions += _even_out(view, pair, rules)
            else:
                decisions.append(_hit_count_skip(pair, memory, rules.avg))
        return (*skipped, *decisions)


def _pair_brokers(brokers: Iterable[BrokerView]) -> list[_BrokerPair]:
    """Pair the hottest with the coolest broker, and so on; the widest pair comes first."""
    ranked = sorted(brokers, key=lambda b: (b.expected.usage_ratio, b.broker_id))
    half = len(ranked) // 2
    return [
        _BrokerPair(hot, cool) for cool, hot in zip(ranked[:half], reversed(ranked), strict=False)
    ]


def _far_apart(brokers: Iterable[BrokerView], limits: AvgRules) -> Iterable[_BrokerPair]:
    return (pair for pair in _pair_brokers(brokers) if pair.points >= limits.low_points)


def _even_out(view: ClusterView, pair: _BrokerPair, rules: SheddingRules) -> tuple[Decision, ...]:
    source, destination = pair.source, pair.destination
    amount = _amount(view, pair, rules.difference)
    if isinstance(amount, Skip):
        return (amount,)
    free, skipped = movable(
        view, source, destination.expected, rules, amount=amount, detail=pair.text
    )
    if not free:
        return tuple(skipped)
    chosen = fitting(free, amount)
    if not chosen:
        return (nothing_fits(source, free, amount, pair.text), *skipped)
    text = f"{pair.text}; {amount.text} should go"
    moves = [
        build_transfer(bundle_view, source, destination, Reason.OVERLOADED, text)
        for bundle_view in chosen
    ]
    return (*moves, *skipped)


def _amount(view: ClusterView, pair: _BrokerPair, limits: DifferenceRules) -> Amount | Skip:
    """Return the amount to move, in messages if there are enough of them, else in bytes."""
    least = {
        Measure.MSG_RATE: limits.min_msg_rate,
        Measure.THROUGHPUT: limits.min_throughput_bytes,
    }
    short: list[str] = []
    for measure, minimum in least.items():
        more = measure.of_broker(view, pair.source) - measure.of_broker(view, pair.destination)
        amount = Amount(measure, more * limits.max_ratio)
        if amount.value > minimum:
            return amount
        short.append(f"{measure.text(max(0.0, amount.value))} (at most {measure.text(minimum)})")
    text = f"{pair.text}, but only {' and '.join(short)} should go"
    return Skip(pair.source.broker_id, Reason.LOW_THROUGHPUT, text)


def _hit_count_skip(pair: _BrokerPair, memory: AvgMemory, limits: AvgRules) -> Skip:
    low = max(memory.low_hits.get(each, 0) for each in pair.ids)
    high = max(memory.high_hits.get(each, 0) for each in pair.ids)
    text = (
        f"{pair.text}: {low} of {limits.low_hits} cycles at {limits.low_points:g} points "
        f"({_LOW_HITS_KEY}), {high} of {limits.high_hits} at {limits.high_points:g} "
        f"({_HIGH_HITS_KEY}), until one of them is reached"
    )
    return Skip(pair.source.broker_id, Reason.HIT_COUNT, text)


def _counts(row: Mapping[str, Any]) -> dict[str, int]:
    return {str(key): int(value) for key, value in row.items()}


# Moves and swaps bundles between a hot and a cool broker to even out their load.
#
# Docs: pulsar-shedders. The lightest of the hot broker's heaviest bundles move first. A bundle
# that is too heavy moves if the cool broker can give enough load back: a swap. The returned load
# is always subtracted from the moved load (Pulsar does so only in its debug mode, and moves too
# little after a swap).


# A swap that leaves the hot broker with more than this of its load is not worth two disturbances.
_SWAP_GAIN: Final = 0.75


@dataclass(frozen=True, slots=True)
class BundleExchange:
    """The bundles that move, and why others do not."""

    given: tuple[BundleView, ...] = ()
    returned: tuple[BundleView, ...] = ()
    skipped: tuple[Skip, ...] = ()

    @property
    def net_bytes(self) -> float:
        """Bytes/s by which the hot broker is relieved."""
        return _bytes(self.given) - _bytes(self.returned)

    @property
    def net_usage(self) -> float:
        """Usage by which the hot broker is relieved."""
        gone = fsum(bundle_view.load_vector.usage_ratio for bundle_view in self.given)
        return gone - fsum(bundle_view.load_vector.usage_ratio for bundle_view in self.returned)


def exchange(
    view: ClusterView,
    source: BrokerView,
    destination: BrokerView,
    rules: SheddingRules,
    *,
    wanted_bytes: float,
    detail: str,
) -> BundleExchange:
    """Move ``wanted_bytes`` of bytes/s, or less; the hot broker keeps a bundle with traffic."""
    amount = Amount(Measure.THROUGHPUT, wanted_bytes)
    top = _top(view, source, rules)
    if source.owned and not top:
        return BundleExchange(skipped=(_nothing_to_look_at(view, source, detail),))
    free, skipped = movable(
        view,
        source,
        destination.expected,
        rules,
        amount=amount,
        detail=detail,
        among=[bundle_view.bundle for bundle_view in top],
    )
    if not free:
        return BundleExchange(skipped=tuple(skipped))
    result = BundleExchange()
    for bundle_view in _lightest_first(free):
        if len(result.given) >= len(top) - 1:
            break
        if result.net_bytes + bundle_view.load_vector.throughput_bytes <= wanted_bytes:
            result = BundleExchange((*result.given, bundle_view), result.returned)
            continue
        returned = _swap(view, source, destination, bundle_view, rules=rules, so_far=result)
        if not returned:
            break
        result = BundleExchange((*result.given, bundle_view), (*result.returned, *returned))
    if not result.given:
        skipped.insert(0, nothing_fits(source, free, amount, detail))
    return BundleExchange(result.given, result.returned, tuple(skipped))


def _top(view: ClusterView, broker: BrokerView, rules: SheddingRules) -> list[BundleView]:
    """Return its heaviest bundles with traffic that are neither pinned nor under policies."""
    busy = _busy(view, broker)
    busy.sort(key=lambda bundle_view: rank(bundle_view, bundle_view.load_vector.throughput_bytes))
    are_all_moved = rules.transfer.is_constrained_moved
    loose = (
        bundle_view
        for bundle_view in busy
        if are_all_moved or not _is_constrained(view, bundle_view.bundle)
    )
    return list(islice(loose, rules.transfer.top_bundles or None))


def _lightest_first(bundles: Iterable[BundleView]) -> list[BundleView]:
    return sorted(
        bundles,
        key=lambda bundle_view: (bundle_view.load_vector.throughput_bytes, bundle_view.bundle),
    )


def _busy(view: ClusterView, broker: BrokerView) -> list[BundleView]:
    owned = [view.bundles[bundle] for bundle in broker.owned if not bundle.namespace.is_pinned]
    return [bundle_view for bundle_view in owned if bundle_view.load_vector.throughput_bytes > 0]


def _is_constrained(view: ClusterView, bundle: Bundle) -> bool:
    constraints, namespace = view.constraints, bundle.namespace
    return namespace in constraints.group_of or constraints.policy_of(namespace) is not None


def _nothing_to_look_at(view: ClusterView, source: BrokerView, detail: str) -> Skip:
    count, busy = len(source.owned), len(_busy(view, source))
    if busy:
        text = f"policies say where its {busy} bundles with traffic may live; {detail}"
        return Skip(source.broker_id, Reason.EXCLUDED, text)
    text = f"none of its {count} bundles that could go has traffic; {detail}"
    return Skip(source.broker_id, Reason.LOW_THROUGHPUT, text)


def _swap(
    view: ClusterView,
    source: BrokerView,
    destination: BrokerView,
    extra: BundleView,
    *,
    rules: SheddingRules,
    so_far: BundleExchange,
) -> tuple[BundleView, ...]:
    """Return the bundles given back for ``extra``; none if no swap is worth it."""
    if not rules.transfer.is_transfer_enabled:
        return ()
    ceiling = source.expected.throughput_bytes
    gone = so_far.net_bytes + extra.load_vector.throughput_bytes
    hot, cool = ceiling - gone, destination.expected.throughput_bytes + gone
    gone_back = {bundle_view.bundle for bundle_view in so_far.returned}
    returned: list[BundleView] = []
    for bundle_view in _lightest_first(_top(view, destination, rules)):
        if bundle_view.bundle in gone_back or permanent_obstacle(view, bundle_view, rules):
            continue
        back = bundle_view.load_vector.throughput_bytes
        if hot + back >= ceiling or cool - back >= ceiling:
            continue
        hot, cool = hot + back, cool - back
        returned.append(bundle_view)
        if cool <= hot < ceiling * _SWAP_GAIN:
            return tuple(returned)
    return ()


def _bytes(bundles: Iterable[BundleView]) -> float:
    return fsum(bundle_view.load_vector.throughput_bytes for bundle_view in bundles)
