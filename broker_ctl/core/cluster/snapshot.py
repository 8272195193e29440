"""Builds a `ClusterView` from reports, corrected by moves that are newer than the reports.

Reports lag: a bundle that just moved is still in the report of its former owner and not yet in that
of the new one, and a move in flight has not changed either report. Deciding on reports alone sheds
the same load twice and floods the broker that looks idle (docs: differences-load-manager). Here a
broker's load is its report, minus the share of the bundles that it no longer carries, plus the
footprint of those that it carries and has not reported. The corrections are computed for each view,
so none can leak or get lost: they vanish with the next report.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum
from typing import TypedDict, Unpack

from broker_ctl.core.cluster.surges import Surge
from broker_ctl.core.cluster.view import (
    BrokerView,
    BundleView,
    ClusterView,
    InFlight,
    Settled,
    Subject,
)
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.constraints import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.load_vector import LoadVector
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.core.model.topic_partitions import NO_PARTITIONS, TopicPartitions


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
    live = {broker.broker_id: broker for broker in sorted(brokers, key=lambda b: b.broker_id)}
    moves = {move.bundle: move for move in facts.get("moves", ())}
    gauge = _Gauge.of(live)
    measured: dict[Bundle, BundleView] = {}
    carried: dict[str, _Carried] = defaultdict(_Carried)
    ordered = in_order(bundles)
    ordered.reverse()
    while ordered:
        # Freed one by one: all at once would hold up every other thread for tens of milliseconds.
        bundle_view = ordered.pop()
        text = str(bundle_view.bundle)
        measured[bundle_view.bundle] = found = gauge.measured(bundle_view, text)
        move = moves.get(bundle_view.bundle)
        carrier = move.destination if move else bundle_view.owner
        if carrier is not None:
            carried[carrier].add(text, found)
    constraints = facts.get("constraints", NO_CONSTRAINTS)
    joined = {
        broker_id: gauge.joined(broker, carried.pop(broker_id, _Carried()), constraints.topics)
        for broker_id, broker in live.items()
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


def in_order(bundles: Iterable[BundleView]) -> list[BundleView]:
    """Sort by bundle, comparing plain numbers and texts: comparing bundles is slow."""
    by_namespace: dict[Namespace, list[BundleView]] = defaultdict(list)
    for bundle_view in bundles:
        by_namespace[bundle_view.bundle.namespace].append(bundle_view)
    names = sorted(by_namespace, key=lambda name: (name.tenant, name.name))
    return [
        bundle_view for name in names for bundle_view in sorted(by_namespace[name], key=_range_of)
    ]


def _range_of(bundle_view: BundleView) -> tuple[int, int]:
    return bundle_view.bundle.range.low, bundle_view.bundle.range.high


@dataclass(slots=True)
class _Carried:
    """The bundles that one broker carries, by their names in reports."""

    bundles: dict[str, BundleView] = field(default_factory=dict)
    served: Counter[Namespace] = field(default_factory=Counter)

    def add(self, text: str, bundle_view: BundleView) -> None:
        self.bundles[text] = bundle_view
        self.served[bundle_view.bundle.namespace] += 1


@dataclass(frozen=True, slots=True)
class _Gauge:
    """Measures bundles by the reports.

    Usage follows bytes: a broker's usage and its CPU are divided among its bundles by throughput.

    Attributes:
        brokers: live ones by id.
        reporters: by the name of a bundle, the broker with the newest report that has it.
        totals_bytes: bytes/s of each broker's report.
        usage_per_byte, cores_per_byte: the cluster's means.
    """

    brokers: Mapping[str, BrokerView]
    reporters: Mapping[str, BrokerView]
    totals_bytes: Mapping[str, float]
    usage_per_byte: float
    cores_per_byte: float

    @classmethod
    def of(cls, brokers: Mapping[str, BrokerView]) -> "_Gauge":
        totals_bytes: dict[str, float] = {}
        for broker_id, broker in brokers.items():
            totals_bytes[broker_id] = fsum(
                stats.throughput for stats in broker.load.bundles.values()
            )
        total = fsum(totals_bytes.values())
        used = fsum(map(_mean_brokers, brokers.values()))
        # Looked for bundle by bundle, each one without an owner would cost a look at every broker.
        reporters: dict[str, BrokerView] = {}
        for broker in sorted(brokers.values(), key=_staleness, reverse=True):
            reporters.update(dict.fromkeys(broker.load.bundles, broker))
        cores = fsum(map(_cores, brokers.values()))
        means = (used / total, cores / total) if total > 0 else (0.0, 0.0)
        return cls(brokers, reporters, totals_bytes, *means)

    def _share(self, broker: BrokerView, stats: BundleStats) -> float:
        """The part of a broker that a line of its report causes."""
        total = self.totals_bytes[broker.broker_id]
        return stats.throughput / total if total > 0 else 0.0

    def measured(self, bundle_view: BundleView, text: str) -> BundleView:
        """A bundle with its line in its owner's report, and with its footprint.

        The footprint's usage comes from that report, else from the newest report with the bundle,
        else from its throughput at the cluster's mean cost of a byte.
        """
        owner = self.brokers.get(bundle_view.owner) if bundle_view.owner is not None else None
        current = owner.load.bundles.get(text) if owner is not None else None
        reporter = owner
        if current is None:
            reporter = self.reporters.get(text)
        short = bundle_view.load.short
        throughput = short.throughput
        if reporter is None:
            usage, sessions = throughput * self.usage_per_byte, 0
            cores = throughput * self.cores_per_byte
        else:
            line = reporter.load.bundles[text]
            share, sessions = self._share(reporter, line), line.sessions
            usage, cores = share * _mean_brokers(reporter), share * _cores(reporter)
        topics = bundle_view.load.topics if current is None else current.topics
        # Not `replace`: it costs as much as all the rest.
        return BundleView(
            bundle_view.bundle,
            bundle_view.owner,
            bundle_view.load,
            bundle_view.last_unloaded_s,
            bundle_view.last_split_s,
            current,
            LoadVector(
                usage,
                throughput,
                bundle_view.load.long.msg_rate,
                topics,
                bytes_in=short.msg_throughput_in,
                bytes_out=short.msg_throughput_out,
                sessions=sessions,
                cpu_cores=cores,
            ),
            bundle_view.hot_topic,
        )

    def joined(self, broker: BrokerView, carried: _Carried, topics: TopicPartitions) -> BrokerView:
        """The broker with its bundles and their load."""
        reported = broker.load.bundles
        left = fsum(
            self._share(broker, stats)
            for text, stats in reported.items()
            if text not in carried.bundles
        )
        left_usage = left * _mean_brokers(broker)
        new = [found.load_vector for text, found in carried.bundles.items() if text not in reported]
        came, came_cores = fsum(each.usage_ratio for each in new), fsum(e.cpu_cores for e in new)
        footprints = [bundle_view.load_vector for bundle_view in carried.bundles.values()]
        owned = frozenset(bundle_view.bundle for bundle_view in carried.bundles.values())
        return replace(
            broker,
            owned=owned,
            expected=LoadVector(
                max(0.0, broker.usage_ratio + (came - left_usage) / broker.size_ratio),
                fsum(load_vector.throughput_bytes for load_vector in footprints),
                fsum(load_vector.msg_rate for load_vector in footprints),
                sum(load_vector.topics for load_vector in footprints),
                broker.size_ratio,
                fsum(load_vector.bytes_in for load_vector in footprints),
                fsum(load_vector.bytes_out for load_vector in footprints),
                sum(load_vector.sessions for load_vector in footprints),
                max(0.0, (1.0 - left) * _cores(broker) + came_cores),
            ),
            served=dict(carried.served),
            partitions=topics.after(NO_PARTITIONS, (), owned),
        )


def _staleness(broker: BrokerView) -> tuple[float, str]:
    return broker.age_s, broker.broker_id


def _mean_brokers(broker: BrokerView) -> float:
    """The usage of a broker, in mean brokers."""
    return broker.usage_ratio * broker.size_ratio


def _cores(broker: BrokerView) -> float:
    return broker.load.usage.cpu.usage / 100
