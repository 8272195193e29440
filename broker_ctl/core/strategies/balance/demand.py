"""Demand of each bundle, averaged over a minute and over half an hour.

A bundle's traffic fluctuates around a level that changes slowly, and half of a deviation is gone
after some ten minutes: a move in response to it is wasted. So the planner uses the steady demand,
over half an hour, and the recent demand only for brokers in acute trouble. A bundle whose recent
demand is far from its steady one has changed permanently: its past is ignored then (docs:
planner-sources, load-history-sources). But what changes again and again comes back by itself, as do
consumers that flap and jobs that run every hour: from the third time on such a bundle keeps its
average, since a move in response would have to be undone by another one. A surge is believed at
once, unless it has come and gone before.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import Smoothing
from broker_ctl.core.strategies.balance.readings import Readings, readings_of
from broker_ctl.core.strategies.balance.resources import Demand, Resources


class Known(NamedTuple):
    """The demand of one bundle.

    Attributes:
        seen_s: seconds since its first reading; below 0: none, the demand is an estimate.
        swings: how often it changed lately; what is long ago counts less.
    """

    steady: Demand
    recent: Demand
    seen_s: float
    swings: float = 0.0


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands by bundle; a plain value.

    Attributes:
        active: the resources that the demands list.
        known: demands by bundle.
        observed_s: time of the last reading.
    """

    active: tuple[int, ...] = ()
    known: Mapping[Bundle, Known] = field(default_factory=dict)
    observed_s: float | None = None

    def steady(self, bundle: Bundle) -> Demand | None:
        """The demand over half an hour; None without a reading."""
        known = self.known.get(bundle)
        return None if known is None else known.steady

    def recent(self, bundle: Bundle) -> Demand | None:
        """The demand over the last minute; None without a reading."""
        known = self.known.get(bundle)
        return None if known is None else known.recent

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "active": list(self.active),
            "known": {
                str(bundle): [list(known.steady), list(known.recent), known.seen_s, known.swings]
                for bundle, known in self.known.items()
            },
            "observed_s": self.observed_s,
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Demands":
        """What ``to_row`` wrote."""
        return cls(
            tuple(row.get("active", ())),
            {
                # Rows of earlier releases have no swings.
                Bundle.parse(text): Known(tuple(steady), tuple(recent), *map(float, counts))
                for text, (steady, recent, *counts) in row.get("known", {}).items()
            },
            row.get("observed_s"),
        )

    def after(self, view: ClusterView, resources: Resources, smoothing: Smoothing) -> "Demands":
        """The demands after one more reading of every bundle that its owner has reported.

        Bundles that left the view are removed; a new one starts with its first reading.
        """
        before = self.known if self.active == resources.active else {}
        before_s = view.taken_at_s if self.observed_s is None else self.observed_s
        elapsed_s = max(0.0, view.taken_at_s - before_s)
        readings = readings_of(view, resources)
        turn = _Turn.of(readings, elapsed_s, smoothing)
        known: dict[Bundle, Known] = {}
        for bundle_view in view.bundles.values():
            is_surging = view.surge_of(bundle_view.bundle) is not None
            old = before.get(bundle_view.bundle)
            known[bundle_view.bundle] = turn.next_of(old, bundle_view, is_surging=is_surging)
        return Demands(resources.active, known, view.taken_at_s)


@dataclass(frozen=True, slots=True)
class _Turn:
    """One reading of everything.

    Attributes:
        swing_ratio: what is left of earlier swings.
        recent_weight, steady_weight: of the new reading, once there are many.
    """

    readings: Readings
    elapsed_s: float
    smoothing: Smoothing
    swing_ratio: float
    recent_weight: float
    steady_weight: float

    @classmethod
    def of(cls, readings: Readings, elapsed_s: float, smoothing: Smoothing) -> "_Turn":
        """Also computes what is the same for each of many bundles."""
        return cls(
            readings,
            elapsed_s,
            smoothing,
            0.5 ** (elapsed_s / smoothing.swing_s),
            _weight(elapsed_s, smoothing.recent_s),
            _weight(elapsed_s, smoothing.steady_s),
        )

    def next_of(self, old: Known | None, bundle_view: BundleView, *, is_surging: bool) -> Known:
        new = self.readings.by_bundle.get(bundle_view.bundle)
        if new is None:
            if old is not None:
                return old
            # It has just arrived: its broker has not measured it yet.
            guess = self.readings.guess(bundle_view)
            return Known(guess, guess, -1.0)
        if old is None or old.seen_s < 0:
            return Known(new, new, 0.0)
        return self._averaged(old, new, is_surging=is_surging)

    def _averaged(self, old: Known, new: Demand, *, is_surging: bool) -> Known:
        swings = old.swings * self.swing_ratio
        if is_surging and old.swings < self.smoothing.most_swings:
            # Averages would show it only minutes later.
            return Known(new, new, 0.0, swings + self._is_apart(old.recent, new))
        seen_s = old.seen_s + self.elapsed_s
        # While there are few readings, all count alike.
        alike = self.elapsed_s / (seen_s + self.elapsed_s) if self.elapsed_s else 0.0
        recent = _mixed(old.recent, new, max(alike, self.recent_weight))
        steady = _mixed(old.steady, new, max(alike, self.steady_weight))
        if not self._is_apart(steady, recent):
            return Known(steady, recent, seen_s, swings)
        if swings < self.smoothing.most_swings:
            return Known(recent, recent, 0.0, swings + 1)
        # One that stays apart has swung once.
        is_new = not self._is_apart(old.steady, old.recent)
        return Known(steady, recent, seen_s, swings + is_new)

    def _is_apart(self, steady: Demand, recent: Demand) -> bool:
        ratio = self.smoothing.change_ratio
        # Loops and lists: generators take twice the time, for each of 100,000 bundles.
        for a, b in zip(steady, recent, strict=True):  # noqa: SIM110
            if abs(b - a) > ratio * a:
                return True
        return False


def _weight(elapsed_s: float, half_life_s: float) -> float:
    return 1 - math.exp(-math.log(2) * elapsed_s / half_life_s) if half_life_s > 0 else 1.0


def _mixed(old: Demand, new: Demand, weight: float) -> Demand:
    return tuple([a + (b - a) * weight for a, b in zip(old, new, strict=True)])
