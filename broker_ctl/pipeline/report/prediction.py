"""Predicts the balance of a changed cluster (docs: load-history-sources).

The usual day is simulated with the planner: every ten minutes the load is that of the profile, and
the planner sheds load as the leader would. A profile has means, without the variation of load
within an hour. The present cluster shows how much that variation adds: it is predicted too, and the
difference between its measured and its predicted imbalance is added to each prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker_ctl.core.rules.balance import Band
from broker_ctl.core.strategies.balance.planner import relieve
from broker_ctl.core.strategies.balance.problem import Floats, Indices, Problem
from broker_ctl.core.strategies.balance.profile import HOURS, NOBODY, profile_placement

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
        problem = Problem.plain(demand[:, None], capacity, owner)
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
