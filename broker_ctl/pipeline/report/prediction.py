"""What another number of brokers would carry, by the usual day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.planner import relieve
from broker_ctl.core.strategies.balance.problem import BalanceProblem, Indices
from broker_ctl.core.strategies.balance.profile import HOURS, NOBODY, profile_placement

# The usual day of the bundles that there are, from the profile of all that there ever were.


_UNKNOWN: Final = np.nan


def usual_day(hours: Iterable[tuple[Bundle, int, float]], now: Sequence[Bundle]) -> Floats:
    """Load of each bundle of now by hour of the day, shape (bundles, 24).

    Of an hour before a bundle was split off or merged, it has its part of what was there in its
    place. Of an hour that nobody knows, it has its mean.

    Args:
        hours: of the profile: bundle, hour of the day, load in any unit.
        now: different ones.
    """
    by_bundle: dict[Bundle, Floats] = {}
    for bundle, hour, value in hours:
        by_bundle.setdefault(bundle, np.full(HOURS, _UNKNOWN))[hour] = value
    load = np.array([by_bundle.get(each, np.full(HOURS, _UNKNOWN)) for each in now])
    load = load.reshape(len(now), HOURS)
    own = _means(load)
    gone = {bundle: row for bundle, row in by_bundle.items() if bundle not in set(now)}
    inherited = _inherit_hours(gone, now, own)
    load = np.where(np.isnan(load), inherited, load)
    return np.where(np.isnan(load), _means(load)[:, None], load)


def _means(load: Floats) -> Floats:
    """Of the hours that are known; 0 where none is."""
    known = ~np.isnan(load)
    counts = known.sum(axis=1)
    sums = np.where(known, load, 0.0).sum(axis=1)
    means: Floats = np.divide(sums, counts, out=np.zeros(len(load)), where=counts > 0)
    return means


def _inherit_hours(gone: Mapping[Bundle, Floats], now: Sequence[Bundle], own: Floats) -> Floats:
    """What bundles of the past leave to those of now, in parts as these have load themselves."""
    places: dict[Namespace, list[int]] = {}
    for place, bundle in enumerate(now):
        places.setdefault(bundle.namespace, []).append(place)
    found = np.full((len(now), HOURS), _UNKNOWN)
    for bundle, row in gone.items():
        heirs = [each for each in places.get(bundle.namespace, ()) if now[each].overlaps(bundle)]
        total = float(own[heirs].sum())
        known = ~np.isnan(row)
        for heir in heirs:
            part = float(own[heir]) / total if total > 0 else 1 / len(heirs)
            had = np.where(np.isnan(found[heir, known]), 0.0, found[heir, known])
            found[heir, known] = had + row[known] * part
    return found


# Predicts the balance of a changed cluster (docs: load-history-sources).
#
# The usual day is simulated with the planner: every ten minutes the load is that of the profile,
# and the planner sheds load as the leader would. A profile has means, without the variation of
# load within an hour. The present cluster shows how much that variation adds: it is predicted
# too, and the difference between its measured and its predicted imbalance is added to each
# prediction.


_STEPS_AN_HOUR: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Circumstance:
    """A cluster on its usual day.

    Attributes:
        load: of each bundle by hour of the day, in mean brokers, shape (bundles, 24).
        owner: broker of each bundle, or `NOBODY`, shape (bundles,).
        sizes: capacity of each broker in mean brokers, above 0, shape (brokers,).
    """

    load: Floats
    owner: Indices
    sizes: Floats

    def without(self, brokers: Sequence[int]) -> "Circumstance":
        """The cluster without these brokers, whose bundles have no owner."""
        stays = np.ones(len(self.sizes), bool)
        stays[list(brokers)] = False
        # The last number is that of nobody.
        numbers = np.append(np.where(stays, np.cumsum(stays) - 1, NOBODY), NOBODY)
        owner = numbers[self.owner].astype(np.int32)
        return Circumstance(self.load, owner, self.sizes[stays])

    def with_more(self, brokers: int) -> "Circumstance":
        """The cluster with this number of further brokers of the median size."""
        more = np.full(brokers, np.median(self.sizes))
        return Circumstance(self.load, self.owner, np.concatenate((self.sizes, more)))

    def times(self, factors: Floats) -> "Circumstance":
        """Multiply the load of each bundle, factors of shape (bundles,)."""
        return Circumstance(self.load * factors[:, None], self.owner, self.sizes)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of a usual day.

    Attributes:
        p50, p99: of the largest over the mean usage.
        mean_usage: of the brokers in the busiest moment of the day, 1.0 is full.
        most_usage: of the fullest broker in any moment of the day.
        moves: that the planner makes in a day.
    """

    p50: float
    p99: float
    mean_usage: float
    most_usage: float
    moves: int


def predict(cluster: Circumstance, band: Band | None = None) -> Prediction:
    """Simulate a usual day twice, and use the second, since the first begins with a change.

    Args:
        cluster: one broker at least.
        band: when the planner acts; None: the default.
    """
    owner = _place_bundles(cluster)
    capacity = cluster.sizes[:, None]
    by_step = _by_step(cluster.load)
    usages: list[Floats] = []
    moves = 0
    for demand in (*by_step, *by_step):
        on = np.bincount(owner, demand, minlength=len(cluster.sizes))
        usages.append(on / cluster.sizes)
        problem = BalanceProblem.plain(demand[:, None], capacity, owner)
        relief = relieve(problem, band or Band())
        for move in relief.moves:
            owner[move.bundle] = move.destination
        moves = moves + len(relief.moves) if len(usages) > len(by_step) else 0
    usage = np.array(usages[len(by_step) :])
    mean = usage.mean(axis=1)
    ratios = np.divide(usage.max(axis=1), mean, out=np.ones_like(mean), where=mean > 0)
    p50, p99 = np.percentile(ratios, [50, 99]).tolist()
    return Prediction(p50, p99, float(mean.max()), float(usage.max()), moves)


def _place_bundles(cluster: Circumstance) -> Indices:
    """Owner of each bundle once everybody has one; the others stay where they are."""
    nobody_moves = np.zeros(len(cluster.owner), bool)
    return profile_placement(
        cluster.load, cluster.owner, cluster.sizes, is_movable=nobody_moves
    ).owner.copy()


def _by_step(load: Floats) -> Floats:
    """Load in the middle of each step, shape (steps, bundles); an hour's mean is in its middle."""
    at = (np.arange(HOURS * _STEPS_AN_HOUR) + 0.5) / _STEPS_AN_HOUR - 0.5
    first = np.floor(at).astype(int)
    part = (at - first)[:, None]
    by_hour = load.T
    between: Floats = by_hour[first % HOURS] * (1 - part) + by_hour[(first + 1) % HOURS] * part
    return between
