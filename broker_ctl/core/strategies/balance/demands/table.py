"""Demands of many bundles as arrays, one row for each."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import Smoothing
from broker_ctl.core.strategies.balance.demands.demand import Known
from broker_ctl.core.strategies.balance.demands.readings import Readings
from broker_ctl.core.strategies.balance.problem import Flags, Indices


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
