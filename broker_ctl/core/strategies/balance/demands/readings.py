"""What each bundle demands of its broker at this moment.

A broker's report says how full each of its resources is, and what each bundle sends and receives.
A resource is divided among the bundles by what drives it: the network by bytes in that direction,
memory by bytes, cpu by bytes and messages alike. Messages alone mislead: a thousand small ones
cost less than a large one (docs: cruise-control, planner-sources).

Demands are absolute (percent of a core, Mbyte, Kbit/s), so that they stay what they are when a
bundle moves to a broker of another size.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats, column
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.strategies.balance.problem import Flags, Indices
from broker_ctl.core.strategies.balance.resources import Demand, Resources

_UNREPORTED: Final = BundleStats()


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """What the newest reports say of some bundles, one row for each.

    Attributes:
        demand: by its line in its owner's report, else by its bytes, shape (bundles, resources).
        is_read: whether its owner reports it, shape (bundles,).
    """

    demand: Floats
    is_read: Flags


def readings_of(
    view: ClusterView, resources: Resources, bundles: Collection[BundleView]
) -> Readings:
    """Divide what every broker uses among the bundles that it reports."""
    brokers = dict(sorted(view.brokers.items()))
    numbers = {broker_id: number for number, broker_id in enumerate(brokers)}
    owner = np.array(
        [-1 if each.current is None else numbers.get(each.owner or "", -1) for each in bundles],
        np.int32,
    )
    totals = [broker.load.total for broker in brokers.values()]
    used = [resources.used(broker.load.usage) for broker in brokers.values()]
    lines = [each.current or _UNREPORTED for each in bundles]
    is_read: Flags = owner >= 0
    guess = column(bundles, "load_vector.throughput_bytes")[:, None]
    if resources.is_bytes:
        read = column(lines, "msg_throughput_in") + column(lines, "msg_throughput_out")
        return Readings(np.where(is_read[:, None], read[:, None], guess), is_read)
    divided = _divided(lines, _Costs.of(totals).at(owner), resources.active)
    # What no broker reports is that of a last one, which uses nothing.
    read = divided * np.array([*used, [0.0] * len(resources.active)])[owner]
    return Readings(np.where(is_read[:, None], read, guess * _per_byte(totals, used)), is_read)


class _Costs(NamedTuple):
    """The part of a broker that a unit of each driver causes, by broker or by bundle."""

    per_byte: Floats
    per_message: Floats
    per_byte_in: Floats
    per_byte_out: Floats

    @classmethod
    def of(cls, totals: Sequence[BundleStats]) -> "_Costs":
        """By broker, and of one without traffic at the end."""
        rows = [
            (
                _inverse(total.throughput),
                _inverse(total.msg_rate),
                _inverse(total.msg_throughput_in),
                _inverse(total.msg_throughput_out),
            )
            for total in (*totals, _UNREPORTED)
        ]
        return cls(*np.array(rows).T)

    def at(self, owner: Indices) -> "_Costs":
        """By bundle."""
        return _Costs(*(each[owner] for each in self))


def _divided(lines: Collection[BundleStats], costs: _Costs, active: Sequence[int]) -> Floats:
    """Each bundle's part of its broker's resources, in the order of `SystemUsage.resources`."""
    bytes_in, bytes_out = column(lines, "msg_throughput_in"), column(lines, "msg_throughput_out")
    messages = column(lines, "msg_rate_in") + column(lines, "msg_rate_out")
    by_bytes = (bytes_in + bytes_out) * costs.per_byte
    by_work = np.where(costs.per_message > 0, (by_bytes + messages * costs.per_message) / 2, 0.0)
    parts = (
        by_work,
        by_bytes,
        by_bytes,
        bytes_in * costs.per_byte_in,
        bytes_out * costs.per_byte_out,
    )
    return np.stack([parts[place] for place in active], axis=1)


def _per_byte(totals: Sequence[BundleStats], used: Sequence[Demand]) -> Floats:
    """The cluster's mean demand of a byte."""
    costs = [_inverse(total.throughput) for total in totals]
    # One after the other: sums of floating-point numbers depend on their order.
    bytes_s = reduce(add, (1 / cost for cost in costs if cost), 0.0)
    return np.array([reduce(add, each) * _inverse(bytes_s) for each in zip(*used, strict=True)])


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else 0.0
