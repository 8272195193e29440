"""Moves and swaps bundles between a hot and a cool broker to even out their load.

Docs: pulsar-shedders. The lightest of the hot broker's heaviest bundles move first. A bundle that
is too heavy moves if the cool broker can give enough load back: a swap. The returned load is
always subtracted from the moved load (Pulsar does so only in its debug mode, and moves too little
after a swap).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import Final

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.measure import Amount, Measure
from broker_ctl.core.strategies.shedding.selection import (
    movable,
    nothing_fits,
    permanent_obstacle,
    rank,
)

# A swap that leaves the hot broker with more than this of its load is not worth two disturbances.
_SWAP_GAIN: Final = 0.75


@dataclass(frozen=True, slots=True)
class Exchange:
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
) -> Exchange:
    """Move ``wanted_bytes`` of bytes/s, or less; the hot broker keeps a bundle with traffic."""
    amount = Amount(Measure.THROUGHPUT, wanted_bytes)
    top = _top(view, source, rules)
    if source.owned and not top:
        return Exchange(skipped=(_nothing_to_look_at(view, source, detail),))
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
        return Exchange(skipped=tuple(skipped))
    result = Exchange()
    for bundle_view in _lightest_first(free):
        if len(result.given) >= len(top) - 1:
            break
        if result.net_bytes + bundle_view.load_vector.throughput_bytes <= wanted_bytes:
            result = Exchange((*result.given, bundle_view), result.returned)
            continue
        returned = _swap(view, source, destination, bundle_view, rules=rules, so_far=result)
        if not returned:
            break
        result = Exchange((*result.given, bundle_view), (*result.returned, *returned))
    if not result.given:
        skipped.insert(0, nothing_fits(source, free, amount, detail))
    return Exchange(result.given, result.returned, tuple(skipped))


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
    so_far: Exchange,
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
