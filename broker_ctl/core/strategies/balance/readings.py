"""What each bundle demands of its broker at this moment.

A broker's report says how full each of its resources is, and what each bundle sends and receives.
A resource is divided among the bundles by what drives it: the network by bytes in that direction,
memory by bytes, cpu by bytes and messages alike. Messages alone mislead: a thousand small ones
cost less than a large one (docs: cruise-control, planner-sources).

Demands are absolute (percent of a core, Mbyte, Kbit/s), so that they stay what they are when a
bundle moves to a broker of another size.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.strategies.balance.resources import Demand, Resources


@dataclass(frozen=True, slots=True)
class _Shares:
    """How a broker's usage is divided among its bundles: what a unit of each driver costs."""

    per_byte: float
    per_message: float
    per_byte_in: float
    per_byte_out: float

    @classmethod
    def of(cls, lines: Iterable[BundleStats]) -> "_Shares":
        total = BundleStats.total_of(lines)
        return cls(
            _inverse(total.throughput),
            _inverse(total.msg_rate),
            _inverse(total.msg_throughput_in),
            _inverse(total.msg_throughput_out),
        )

    def of_line(self, line: BundleStats) -> tuple[float, float, float, float, float]:
        """The bundle's part of each of the five resources."""
        by_bytes = line.throughput * self.per_byte
        by_work = (by_bytes + line.msg_rate * self.per_message) / 2 if self.per_message else 0.0
        return (
            by_work,
            by_bytes,
            by_bytes,
            line.msg_throughput_in * self.per_byte_in,
            line.msg_throughput_out * self.per_byte_out,
        )


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Readings:
    """What the newest reports say.

    Attributes:
        by_bundle: of each bundle that its owner reports.
        per_byte: the cluster's mean demand of a byte.
    """

    by_bundle: Mapping[Bundle, Demand]
    per_byte: Demand

    def guess(self, bundle_view: BundleView) -> Demand:
        """By its bytes."""
        bytes_s = bundle_view.load_vector.throughput_bytes
        return tuple(cost * bytes_s for cost in self.per_byte)


def readings_of(
    view: ClusterView, resources: Resources, wanted: Iterable[Bundle] | None = None
) -> Readings:
    """Divide what every broker uses among the bundles that it reports; None: of all bundles."""
    shares: dict[str, _Shares] = {}
    used: dict[str, Demand] = {}
    total_bytes = 0.0
    totals = [0.0] * max(1, len(resources.active))
    for broker_id, broker in sorted(view.brokers.items()):
        shares[broker_id] = _Shares.of((*broker.load.bundles.values(), broker.load.unlisted))
        used[broker_id] = resources.used(broker.load.usage)
        cost = shares[broker_id].per_byte
        total_bytes += 1 / cost if cost else 0.0
        totals = [a + b for a, b in zip(totals, used[broker_id], strict=False)] or totals
    by_bundle: dict[Bundle, Demand] = {}
    among = view.bundles if wanted is None else wanted
    for bundle_view in (view.bundles[bundle] for bundle in among):
        if bundle_view.current is None or bundle_view.owner not in shares:
            continue
        if resources.is_bytes:
            by_bundle[bundle_view.bundle] = (bundle_view.current.throughput,)
            continue
        parts = shares[bundle_view.owner].of_line(bundle_view.current)
        by_bundle[bundle_view.bundle] = tuple(
            parts[place] * amount
            for place, amount in zip(resources.active, used[bundle_view.owner], strict=True)
        )
    per_byte = tuple(each * _inverse(total_bytes) for each in totals)
    return Readings(by_bundle, (1.0,) if resources.is_bytes else per_byte)
