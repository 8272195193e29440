"""The lower bound of imbalance, which no placement can beat (docs: imbalance-bounds)."""

import numpy as np

from broker_ctl.core.strategies.balance.problem import Floats, Problem


def imbalance_bound(problem: Problem) -> float:
    """The smallest max over mean usage of any placement of whole bundles; at least 1.

    A bundle larger than a mean broker's share makes its broker the fullest, even on the largest
    broker. For the bound, the mean is the highest possible one, with the smallest brokers the
    fullest, and a bundle counts with its largest resource: with several sizes or resources no
    placement may reach the bound.
    """
    capacity = problem.capacity[problem.is_counted]
    if not len(problem.demand) or not len(capacity):
        return 1.0
    most = np.where(np.isfinite(capacity), capacity, 0.0).max(axis=0)
    limited = most > 0
    if not limited.any():
        return 1.0
    largest = float((problem.demand / capacity.max(axis=0)).max())
    loads = np.concatenate((problem.demand, problem.base))[:, limited] / most[limited]
    sizes = np.minimum(capacity[:, limited] / most[limited], 1.0).min(axis=1)
    mean = _highest_mean(float(loads.max(axis=1).sum()), sizes, largest)
    return max(1.0, largest / mean) if mean > 0 else 1.0


def _highest_mean(total: float, sizes: Floats, level: float) -> float:
    """Mean usage where the smallest brokers are filled first, none above ``level``."""
    ordered = np.sort(sizes)
    room = level * ordered
    before = np.cumsum(room) - room
    return float((np.clip(total - before, 0.0, room) / ordered).mean())
