"""What no placement can beat (reference: balancing-and-operations C.1)."""

import numpy as np

from broker_ctl.core.balance.problem import Floats, Problem


def imbalance_bound(problem: Problem) -> float:
    """The smallest max over mean usage that any placement of whole bundles can have; at least 1.

    A bundle that is more than a mean broker's share makes its broker the fullest, wherever it
    lives: on the broker that has most room for it.
    """
    counted = problem.is_counted
    capacity = problem.capacity[counted]
    if not len(problem.demand) or not len(capacity):
        return 1.0
    even = _level(problem.demand.sum(axis=0) + problem.base.sum(axis=0), capacity)
    if even <= 0:
        return 1.0
    largest = (problem.demand / capacity.max(axis=0)).max()
    return max(1.0, float(largest) / even)


def _level(total: Floats, capacity: Floats) -> float:
    """Usage of every broker, were the load spread like sand."""
    limits = np.where(np.isfinite(capacity), capacity, np.inf).sum(axis=0)
    return float((total / limits).max())
