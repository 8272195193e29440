"""What no placement can beat (docs: imbalance-bounds)."""

import numpy as np

from broker_ctl.core.strategies.balance.problem import Floats, Problem


def imbalance_bound(problem: Problem) -> float:
    """The smallest max over mean usage that any placement of whole bundles can have; at least 1.

    A bundle that is more than a mean broker's share makes its broker the fullest, wherever it
    lives: on the broker that has most room for it. The mean is the highest where the smallest
    brokers are the fullest, and a bundle counts with the resource that it takes most of: with
    several sizes or resources no placement may come so far down.
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
