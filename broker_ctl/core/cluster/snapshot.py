"""Builds a `ClusterView` from reports, corrected by moves that are newer than the reports.

Reports lag: a bundle that just moved is still in the report of its former owner and not yet in that
of the new one, and a move in flight has not changed either report. Deciding on reports alone sheds
the same load twice and floods the broker that looks idle (docs: differences-load-manager). Here a
broker's load is its report, minus the share of the bundles that it no longer carries, plus the
footprint of those that it carries and has not reported. The corrections are computed for each view,
so none can leak or get lost: they vanish with the next report.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import attrgetter, lt
from typing import TYPE_CHECKING, TypedDict, Unpack

from broker_ctl.core.cluster.surges import Surge
from broker_ctl.core.cluster.view import (
    BrokerView,
    BundleView,
    ClusterView,
    InFlight,
    Settled,
    Subject,
)
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.names import Bundle, Namespace, Ring

if TYPE_CHECKING:
    from broker_ctl.core.cluster.footprints import Footprints


class _Facts(TypedDict, total=False):
    """Optional facts of a view besides brokers and bundles."""

    rings: Iterable[Ring]
    moves: Iterable[InFlight]
    splitting: Iterable[Bundle]
    settled: Iterable[Settled]
    constraints: Constraints
    taken_at_ms: int
    surges: Mapping[Subject, Surge]


def snapshot(
    *,
    epoch: int,
    taken_at_s: float,
    draw_seed: int,
    brokers: Iterable[BrokerView],
    bundles: Iterable[BundleView],
    **facts: Unpack[_Facts],
) -> ClusterView:
    """Join the facts of one moment; the given views of brokers and bundles have facts only."""
    # Imported by the first view, since they load numpy.
    from broker_ctl.core.cluster.footprints import Carried, FootprintGauge

    live = {broker.broker_id: broker for broker in sorted(brokers, key=lambda b: b.broker_id)}
    moves = {move.bundle: move for move in facts.get("moves", ())}
    ordered = in_order(bundles)
    names = [str(bundle_view.bundle) for bundle_view in ordered]
    measured = _measured(ordered, FootprintGauge(live).measure(ordered, names))
    constraints = facts.get("constraints", NO_CONSTRAINTS)
    carried = Carried(live, measured, names, moves)
    joined = {
        broker_id: carried.joined(broker, constraints.topics) for broker_id, broker in live.items()
    }
    return ClusterView(
        epoch=epoch,
        taken_at_s=taken_at_s,
        draw_seed=draw_seed,
        brokers=joined,
        bundles=measured,
        rings={ring.namespace: ring for ring in facts.get("rings", ())},
        moves=moves,
        splitting=frozenset(facts.get("splitting", ())),
        settled=tuple(facts.get("settled", ())),
        constraints=constraints,
        taken_at_ms=facts.get("taken_at_ms", 0),
        surges=facts.get("surges", {}),
    )


def _measured(ordered: list[BundleView], footprints: "Footprints") -> dict[Bundle, BundleView]:
    """The bundles with their footprints; empties the list."""
    measured: dict[Bundle, BundleView] = {}
    columns = zip(ordered, footprints.current, footprints.load_vectors, strict=True)
    for bundle_view, current, load_vector in columns:
        # Not `replace`: it costs as much as all the rest.
        measured[bundle_view.bundle] = BundleView(
            bundle_view.bundle,
            bundle_view.owner,
            bundle_view.load,
            bundle_view.last_unloaded_s,
            bundle_view.last_split_s,
            current,
            load_vector,
            bundle_view.hot_topic,
            bundle_view.last_released_s,
        )
    # Freed one by one: all at once would hold up every other thread for tens of milliseconds. And
    # not while others are made: objects that are freed put the next search for garbage off, which
    # then took 30 ms for a hundred thousand new ones at once.
    while ordered:
        ordered.pop()
    return measured


def in_order(bundles: Iterable[BundleView]) -> list[BundleView]:
    """Sort by bundle, comparing plain numbers and texts: comparing bundles is slow."""
    by_namespace: dict[Namespace, list[BundleView]] = defaultdict(list)
    namespace: Namespace | None = None
    for bundle_view in bundles:
        if bundle_view.bundle.namespace is not namespace:
            namespace = bundle_view.bundle.namespace
            some = by_namespace[namespace]
        some.append(bundle_view)
    names = sorted(by_namespace, key=lambda name: (name.tenant, name.name))
    return [bundle_view for name in names for bundle_view in _by_range(by_namespace[name])]


def _by_range(bundles: list[BundleView]) -> list[BundleView]:
    # Not `map`, which would keep the interpreter lock for all of them.
    lows = [bundle_view.bundle.range.low for bundle_view in bundles]
    # Those of a view are in order already.
    is_in_order = all(map(lt, lows, islice(lows, 1, None)))
    return bundles if is_in_order else sorted(bundles, key=_range_of)


_range_of = attrgetter("bundle.range.low", "bundle.range.high")
