"""Small problems for the planner: worked by hand, and drawn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from hypothesis import strategies as st

from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.planner import Relief, relieve
from broker_ctl.core.strategies.balance.problem import BalanceProblem, Flags, sharing_of

# Acts above 1.2 mean usages, down to 1.1, in an idle cluster as well.
BAND: Final = Band(high=1.2, low=1.1, least=0.0)
INF: Final = float("inf")


def one(
    brokers: Sequence[Sequence[float]], capacity: float | Sequence[float] = 100.0
) -> BalanceProblem:
    """One resource: the bundles of each broker, numbered along the brokers."""
    return several([[(size,) for size in each] for each in brokers], capacity)


def several(
    brokers: Sequence[Sequence[Sequence[float]]],
    capacity: float | Sequence[float] | Sequence[Sequence[float]] = 100.0,
) -> BalanceProblem:
    """Several resources: of each broker its bundles, of each bundle what it demands of each."""
    bundles = [(number, demand) for number, each in enumerate(brokers) for demand in each]
    demand = np.array([demand for _, demand in bundles], np.float64)
    resources = demand.shape[1] if bundles else 1
    limits = np.array(capacity, np.float64)
    if limits.ndim == 1:
        limits = limits[:, np.newaxis]
    return BalanceProblem.plain(
        demand=demand.reshape(len(bundles), resources),
        capacity=np.broadcast_to(limits, (len(brokers), resources)).copy(),
        owner=np.array([number for number, _ in bundles], np.int32),
    )


def relieved(problem: BalanceProblem, band: Band = BAND, limit: int | None = None) -> Relief:
    return relieve(problem, band, limit)


def paths(relief: Relief) -> list[tuple[int, int, int]]:
    """Bundle, from, to."""
    return [(move.bundle, move.source, move.destination) for move in relief.moves]


def usages(problem: BalanceProblem, owner: Sequence[int]) -> list[float]:
    """Of each broker, added up from the start."""
    load = problem.base.copy()
    for bundle, broker in enumerate(owner):
        load[broker] += problem.demand[bundle]
    return [float(usage) for usage in (load / problem.capacity).max(axis=1)]


bands: Final = st.builds(
    lambda low, more, least: Band(high=low + more, low=low, least=least),
    st.sampled_from([1.0, 1.03, 1.1]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([0.0, 0.02]),
)
_SEEDS: Final = st.integers(0, 2**32)
_SHARES: Final = st.sampled_from([1.0, 0.5])
_DEMANDS: Final = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 40.0)
# In powers of two sums and quotients are exact: what is equal is equal.
_SIZES: Final = (32.0, 64.0, 64.0, 128.0, INF)


@st.composite
def plain_problems(draw: st.DrawFn) -> BalanceProblem:
    """Equal brokers, one resource; some bundles may not go everywhere."""
    brokers, bundles = draw(st.integers(2, 6)), draw(st.integers(1, 30))
    dice = np.random.Generator(np.random.PCG64(draw(_SEEDS)))
    plain = BalanceProblem.plain(
        demand=dice.choice(_DEMANDS[1:], (bundles, 1)),
        capacity=np.full((brokers, 1), 128.0),
        owner=dice.integers(0, brokers, bundles).astype(np.int32),
    )
    kind = dice.integers(0, 2, bundles).astype(np.int32)
    allowed = np.stack((np.ones(brokers, bool), dice.random(brokers) < draw(_SHARES)))
    sharing = sharing_of(allowed, plain.is_counted, plain.is_giving)
    return replace(plain, kind=kind, allowed=allowed, sharing=sharing)


@st.composite
def problems(draw: st.DrawFn) -> BalanceProblem:
    """Of up to three resources and brokers of several sizes, with every kind of constraint."""
    brokers, kinds = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    resources, bundles = draw(st.integers(1, 3)), draw(st.integers(0, 30))
    # What fills the tables is thrown by dice: to draw every cell takes most of the time.
    dice = np.random.Generator(np.random.PCG64(draw(_SEEDS)))
    strict = draw(st.sampled_from([0.0, 0.0, 0.2]))

    def mostly(*shape: int) -> Flags:
        return dice.random(shape) >= strict

    takes = dice.choice([0.0, 1.0, 2.0, 5.0], (bundles, limits := draw(st.integers(0, 2))))
    owner = dice.integers(0, brokers, bundles).astype(np.int32)
    held = np.zeros((brokers, limits))
    np.add.at(held, owner, takes)
    counted, giving, allowed = mostly(brokers), mostly(brokers), mostly(kinds, brokers)
    return BalanceProblem(
        demand=dice.choice(_DEMANDS, (bundles, resources)),
        capacity=dice.choice(_SIZES, (brokers, resources)),
        owner=owner,
        is_movable=mostly(bundles),
        is_receiving=mostly(brokers),
        is_giving=giving,
        is_counted=counted,
        base=dice.choice([0.0, 0.0, 4.0, 16.0], (brokers, resources)),
        kind=dice.integers(0, kinds, bundles).astype(np.int32),
        allowed=allowed,
        sharing=sharing_of(allowed, counted, giving),
        avoid=dice.integers(-3, brokers, bundles).clip(-1).astype(np.int32),
        takes=takes,
        held=held,
        # Some brokers are beyond their limits already.
        most=dice.choice([4.0, 12.0, 20.0, INF], (brokers, limits)),
    )
