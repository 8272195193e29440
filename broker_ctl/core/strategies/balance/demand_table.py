"""Demands of all bundles in columns, and how reports become them."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats, column
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import Smoothing
from broker_ctl.core.strategies.balance.demands import Demand, Known, Resources
from broker_ctl.core.strategies.balance.problem import Flags, Indices

# What each bundle demands of its broker at this moment.
#
# A broker's report says how full each of its resources is, and what each bundle sends and
# receives. A resource is divided among the bundles by what drives it: the network by bytes in
# that direction, memory by bytes, cpu by bytes and messages alike. Messages alone mislead: a
# thousand small ones cost less than a large one (docs: cruise-control, planner-sources).
#
# Demands are absolute (percent of a core, Mbyte, Kbit/s), so that they stay what they are when a
# bundle moves to a broker of another size.


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


# Demands of many bundles as arrays, one row for each.


class _Rows(NamedTuple):
    """What is known, as in `Known`; demands have the shape (bundles, resources)."""

    steady: Floats
    recent: Floats
    seen_s: Floats
    swings: Floats

    def at(self, places: Indices) -> "_Rows":
        return _Rows(*(each[places] for each in self))

    def where(self, condition: Flags, others: "_Rows") -> "_Rows":
        """These where the condition is met, the others elsewhere."""
        wide = condition[:, None]
        return _Rows(
            np.where(wide, self.steady, others.steady),
            np.where(wide, self.recent, others.recent),
            np.where(condition, self.seen_s, others.seen_s),
            np.where(condition, self.swings, others.swings),
        )


@dataclass(frozen=True, eq=False)
class DemandTable(Mapping[Bundle, Known]):
    """What is known of each bundle; its arrays are not changed."""

    places: Mapping[Bundle, int]
    rows: _Rows

    @classmethod
    def of(cls, known: Mapping[Bundle, Known], resources: int) -> "DemandTable":
        """The table of a mapping."""
        if isinstance(known, DemandTable):
            return known
        shape = len(known), resources
        values = known.values()
        rows = _Rows(
            np.array([each.steady for each in values], np.float64).reshape(shape),
            np.array([each.recent for each in values], np.float64).reshape(shape),
            np.array([each.seen_s for each in values], np.float64),
            np.array([each.swings for each in values], np.float64),
        )
        return cls(_places(known), rows)

    def __getitem__(self, bundle: Bundle) -> Known:
        steady, recent, seen_s, swings = (each[self.places[bundle]] for each in self.rows)
        return Known(tuple(steady.tolist()), tuple(recent.tolist()), float(seen_s), float(swings))

    def __iter__(self) -> Iterator[Bundle]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def places_of(self, bundles: Collection[Bundle]) -> Indices:
        """The row of each bundle, or -1."""
        # Nearly always they are the same ones: this compares a hundred thousand in a millisecond.
        if len(bundles) == len(self.places) and list(bundles) == list(self.places):
            return np.arange(len(bundles), dtype=np.int32)
        places = self.places
        return np.array([places.get(bundle, -1) for bundle in bundles], np.int32)

    def steady_of(self, bundles: Collection[Bundle]) -> Floats:
        """The steady demand of each, shape (bundles, resources); NaN without one."""
        return _with_gaps(self.rows.steady, self.places_of(bundles))

    def recent_of(self, bundles: Collection[Bundle]) -> Floats:
        """The recent one, likewise."""
        return _with_gaps(self.rows.recent, self.places_of(bundles))

    def swinging(self, least: float) -> list[Bundle]:
        """Bundles that have changed so often lately."""
        bundles = list(self.places)
        return [bundles[place] for place in np.flatnonzero(self.rows.swings >= least).tolist()]

    def after(
        self,
        bundles: Collection[Bundle],
        readings: Readings,
        surging: Flags,
        elapsed_s: float,
        smoothing: Smoothing,
    ) -> "DemandTable":
        """The table of these bundles after one more reading of each."""
        demand, none = readings.demand, np.zeros(len(bundles))
        first = _Rows(demand, demand, none, none)
        # It has just arrived: its broker has not measured it yet.
        unseen = _Rows(demand, demand, none - 1.0, none)
        places = self.places_of(bundles)
        is_known: Flags = places >= 0
        old = self.rows.at(places) if self.places else unseen
        averaged = _Turn(elapsed_s, smoothing).averaged(old, demand, surging)
        read = averaged.where(is_known & (old.seen_s >= 0), first)
        return DemandTable(
            _places(bundles), read.where(readings.is_read, old.where(is_known, unseen))
        )


def _with_gaps(values: Floats, places: Indices) -> Floats:
    gap = np.full((1, values.shape[1]), np.nan)
    return np.concatenate([values, gap])[places]


def _places(bundles: Collection[Bundle]) -> Mapping[Bundle, int]:
    return {bundle: place for place, bundle in enumerate(bundles)}


@dataclass(frozen=True, slots=True)
class _Turn:
    """One reading of everything."""

    elapsed_s: float
    smoothing: Smoothing

    def averaged(self, old: _Rows, new: Floats, surging: Flags) -> _Rows:
        """What is known of bundles that were read before, after a new reading."""
        most = self.smoothing.most_swings
        swings = old.swings * 0.5 ** (self.elapsed_s / self.smoothing.swing_s)
        seen_s = old.seen_s + self.elapsed_s
        recent = self._mixed(old.recent, new, seen_s, self.smoothing.recent_s)
        steady = self._mixed(old.steady, new, seen_s, self.smoothing.steady_s)
        is_apart = self._is_apart(steady, recent)
        # One that stays apart has swung once.
        is_new = is_apart & ~self._is_apart(old.steady, old.recent)
        none = np.zeros(len(new))
        changed = _Rows(recent, recent, none, swings + 1)
        found = changed.where(
            is_apart & (swings < most), _Rows(steady, recent, seen_s, swings + is_new)
        )
        # Averages would show a surge only minutes later.
        surged = _Rows(new, new, none, swings + self._is_apart(old.recent, new))
        return surged.where(surging & (old.swings < most), found)

    def _mixed(self, old: Floats, new: Floats, seen_s: Floats, half_life_s: float) -> Floats:
        weight = np.full(len(new), _weight(self.elapsed_s, half_life_s))
        if self.elapsed_s:
            # While there are few readings, all count alike.
            weight = np.maximum(weight, self.elapsed_s / (np.maximum(seen_s, 0.0) + self.elapsed_s))
        mixed: Floats = old + (new - old) * weight[:, None]
        return mixed

    def _is_apart(self, steady: Floats, recent: Floats) -> Flags:
        beyond: Flags = np.abs(recent - steady) > self.smoothing.change_ratio * steady
        apart: Flags = np.logical_or.reduce(beyond, axis=1)
        return apart


def _weight(elapsed_s: float, half_life_s: float) -> float:
    return 1 - math.exp(-math.log(2) * elapsed_s / half_life_s) if half_life_s > 0 else 1.0
