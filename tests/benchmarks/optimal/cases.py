"""Small moments of a cluster, drawn: so small that a solver finds their optimum.

Three in four are as a leader meets them after its splits: no bundle is above a tenth of a mean
broker. One in four has what cannot be split.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.strategies.balance.problem import BalanceProblem

MOST_BROKERS: Final = 12
MOST_BUNDLES: Final = 200
# loadBalancerNamespaceBundleMaxBrokerPercentage.
_LARGEST_SHARE: Final = 0.1
_SIGMA: Final = (0.4, 1.4)
_SIZES: Final = (1.0, 1.5, 2.0)
_MEAN_USAGE: Final = 0.55
# Of the Dirichlet variable that says how much more than others a broker begins with.
_EVENNESS: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A moment with the draw's number; ``is_split``: nothing is above a tenth of a broker."""

    number: int
    problem: BalanceProblem
    is_split: bool

    @property
    def weight(self) -> Floats:
        """What it counts to move a bundle: its mean part of all resources, 1.0 for all bundles."""
        demand = self.problem.demand
        weight: Floats = (demand / demand.sum(axis=0)).mean(axis=1)
        return weight


def draw_case(number: int) -> Case:
    """The same number draws the same case."""
    rng = np.random.Generator(np.random.PCG64(number))
    is_split = number % 4 != 0
    while True:
        brokers = int(rng.integers(2, MOST_BROKERS + 1))
        bundles = int(rng.integers(4 * brokers, MOST_BUNDLES - 9 * brokers))
        resources = int(rng.choice([1, 3]))
        load = rng.lognormal(0.0, rng.uniform(*_SIGMA), bundles)
        mixed = rng.uniform(0.6, 1.4, (bundles, 3))
        demand = load[:, np.newaxis] * (mixed if resources == 3 else np.ones((bundles, 1)))
        owner = rng.choice(brokers, bundles, p=rng.dirichlet(np.full(brokers, _EVENNESS)))
        sizes = np.ones(brokers) if rng.random() < 0.6 else rng.choice(_SIZES, brokers)
        parts = _parts(demand, brokers) if is_split else np.ones(bundles, np.int64)
        if int(parts.sum()) <= MOST_BUNDLES:
            break
    # A split leaves its parts where their parent was.
    split = np.repeat(demand / parts[:, np.newaxis], parts, axis=0)
    capacity = sizes[:, np.newaxis] * demand.sum(axis=0) / sizes.sum() / _MEAN_USAGE
    homes = np.repeat(owner, parts).astype(np.int32)
    return Case(number, BalanceProblem.plain(split, capacity, homes), is_split)


def _parts(demand: Floats, brokers: int) -> NDArray[np.int64]:
    """Into how many equal parts each bundle is halved until none is above a tenth of a broker."""
    share = (demand / (demand.sum(axis=0) / brokers)).max(axis=1)
    halvings = np.ceil(np.log2(np.maximum(share / _LARGEST_SHARE, 1.0)))
    parts: NDArray[np.int64] = np.exp2(halvings).astype(np.int64)
    return parts
