"""The lower bound of imbalance, which no placement can beat (docs: imbalance-bounds)."""

import numpy as np

from broker_ctl.core.strategies.balance.problem import Floats, Problem


def imbalance_bound(problem: Problem, kind: int | None = None) -> float:
    """The smallest max over mean usage of any placement of whole bundles; at least 1.

    ``kind``: over the brokers that may carry bundles of this kind, and the bundles that must live
    on these; all that may live there can raise the mean.

    A bundle larger than a mean broker's share makes its broker the fullest, even on the largest
    broker. For the bound, the mean is the highest possible one, with the smallest brokers the
    fullest, and a bundle counts with its largest resource: with several sizes or resources no
    placement may reach the bound.
    """
    there = problem.is_counted if kind is None else problem.sharing[kind]
    capacity = problem.capacity[there]
    demand, base = problem.demand, problem.base
    bound_here = np.ones(len(demand), bool)
    if kind is not None and len(problem.allowed) > 1:
        base = base[there]
        # Where it is now a bundle may stay, whatever is allowed.
        may_be, may_leave = problem.allowed[:, there], problem.allowed[:, ~there]
        may = np.logical_or.reduce(may_be, axis=1)[problem.kind] | there[problem.owner]
        must = ~np.logical_or.reduce(may_leave, axis=1)[problem.kind] & there[problem.owner]
        demand, bound_here = demand[may], must[may]
    if not bound_here.any() or not len(capacity):
        return 1.0
    most = np.where(np.isfinite(capacity), capacity, 0.0).max(axis=0)
    limited = most > 0
    if not limited.any():
        return 1.0
    largest = float((demand[bound_here] / capacity.max(axis=0)).max())
    loads = np.concatenate((demand, base))[:, limited] / most[limited]
    sizes = np.minimum(capacity[:, limited] / most[limited], 1.0).min(axis=1)
    mean = _highest_mean(float(loads.max(axis=1).sum()), sizes, largest)
    return max(1.0, largest / mean) if mean > 0 else 1.0


def _highest_mean(total: float, sizes: Floats, level: float) -> float:
    """Mean usage where the smallest brokers are filled first, none above ``level``."""
    ordered = np.sort(sizes)
    room = level * ordered
    before = np.cumsum(room) - room
    return float((np.clip(total - before, 0.0, room) / ordered).mean())
