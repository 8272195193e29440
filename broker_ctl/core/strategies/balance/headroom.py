"""How even the load can become, and what remains when a broker or a domain is lost."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.strategies.balance.problem import BalanceProblem

# The lower bound of imbalance, which no placement can beat (docs: imbalance-bounds).


def imbalance_bound(problem: BalanceProblem, kind: int | None = None) -> float:
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


# N-1 headroom: whether the cluster could carry its load after the loss of a broker, or a domain.
#
# The figure is a bound: all load, including that of the lost broker, spread over the survivors by
# capacity. No placement leaves the fullest survivor below it, so if it is too high the cluster is
# too small, however well it is balanced. Indivisible bundles and constraints on placement only
# make it worse.


# loadBalancerHeadroomLimitPercentage, there in percent.
LIMIT_RATIO: Final = 0.85


def after_each_loss(load: Floats, capacity: Floats) -> Floats:
    """Usage of the survivors at best, by the broker that died.

    Args:
        load: shape (brokers, resources).
        capacity: likewise; infinite where nothing limits a broker.

    Returns:
        Shape (brokers,); infinite where there is load and no other broker.
    """
    left = _sum_of_others(capacity)
    return _fullest(np.broadcast_to(load.sum(axis=0), left.shape), left)


def after_loss(load: Floats, capacity: Floats) -> tuple[float, int]:
    """Usage of the survivors at best after the worst loss, and whose loss that is.

    Between equals it is the broker with the highest usage, whose death moves most.

    Raises:
        ValueError: there is no broker to lose.
    """
    if not len(load):
        raise ValueError("no brokers: nobody can be lost")
    after = after_each_loss(load, capacity)
    worst = np.flatnonzero(after >= after.max() * (1 - 1e-12))
    index = int(worst[_fullest(load[worst], capacity[worst]).argmax()])
    return float(after[index]), index


def after_domain_loss(
    load: Floats, capacity: Floats, domains: Sequence[str]
) -> tuple[float, str] | None:
    """As `after_loss`, of a whole failure domain; None where there are not two.

    Args:
        load: shape (brokers, resources).
        capacity: likewise.
        domains: of each broker; empty: it is in none, and is lost alone.
    """
    names = sorted(set(domains) - {""})
    if len(names) < 2:
        return None
    places = np.array(domains)
    total = load.sum(axis=0, keepdims=True)
    left = np.array([capacity[places != name].sum(axis=0) for name in names])
    after = _fullest(np.broadcast_to(total, left.shape), left)
    worst = int(after.argmax())
    return float(after[worst]), names[worst]


def has_headroom(load: Floats, capacity: Floats, limit_ratio: float = LIMIT_RATIO) -> bool:
    """Whether any one broker may die and the others stay within the limit; not if there is none."""
    return bool(len(load)) and after_loss(load, capacity)[0] <= limit_ratio


def headroom_text(
    broker_ids: Sequence[str], load: Floats, capacity: Floats, limit_ratio: float = LIMIT_RATIO
) -> str:
    """The headroom as a sentence; ``broker_ids`` in the order of the arrays."""
    if not broker_ids:
        return "no broker is there"
    usage, index = after_loss(load, capacity)
    return loss_text(broker_ids[index], len(broker_ids) - 1, usage, limit_ratio)


def loss_text(lost: str, others: int, usage: float, limit_ratio: float = LIMIT_RATIO) -> str:
    """What ``others`` brokers carry at best without those that are lost, as a sentence."""
    if not np.isfinite(usage):
        return f"without {lost} nobody could carry the load"
    text = (
        f"without {lost} the usage of the other {others} is {usage:.1%} at best, "
        f"the limit is {limit_ratio:.1%}"
    )
    if usage <= 0:
        return text
    growth = limit_ratio / usage - 1
    if growth < 0:
        return f"{text}: {-growth:.1%} of the load is too much"
    return f"{text}: the load may grow by {growth:.1%}"


def _fullest(load: Floats, capacity: Floats) -> Floats:
    """Usage of the fullest resource; infinite where there is load and no capacity at all."""
    usage = np.where(load > 0, np.inf, 0.0)
    np.divide(load, capacity, out=usage, where=capacity > 0)
    fullest: Floats = usage.max(axis=1)
    return fullest


def _sum_of_others(values: Floats) -> Floats:
    """Each row's sum over all other rows, without a subtraction.

    To take one from the total would leave rounding where one has nearly all, and nothing sensible
    where two are infinite.
    """
    none = np.zeros((1, values.shape[1]))
    before = np.cumsum(np.concatenate([none, values]), axis=0)[:-1]
    behind = np.cumsum(np.concatenate([none, values[::-1]]), axis=0)[:-1][::-1]
    sums: Floats = before + behind
    return sums
