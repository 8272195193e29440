"""The bound, compared with every possible placement."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from broker_ctl.core.strategies.balance.headroom import imbalance_bound
from broker_ctl.core.strategies.balance.problem import BalanceProblem
from tests.core.strategies.balance.problems import (
    INF,
    one,
    plain_problems,
    problems,
    several,
    usages,
)


def test_without_a_large_bundle_nothing_stands_against_evenness() -> None:
    assert imbalance_bound(one([[10, 10, 10, 10], []])) == 1.0
    assert imbalance_bound(one([[50], [50]])) == 1.0


def test_a_bundle_that_is_more_than_a_share_makes_its_broker_the_fullest() -> None:
    """120 among four are 30 each; 60 are twice that wherever they are."""
    assert imbalance_bound(one([[60], [20, 10], [20], [10]])) == pytest.approx(2.0)


def test_usage_without_a_bundle_counts_in_the_mean() -> None:
    problem = replace(one([[60], [], [], []]), base=np.array([[0.0], [20], [20], [20]]))
    assert imbalance_bound(problem) == pytest.approx(2.0)


def test_the_largest_broker_may_have_the_largest_bundle() -> None:
    """60 on the one of 400 are 15 %; with so much on the others it has 40, and the mean is 13 %."""
    problem = one([[60], [5], [5]], capacity=[400.0, 100.0, 100.0])
    assert imbalance_bound(problem) == pytest.approx(1.125)


def test_the_small_may_be_fuller_than_the_large() -> None:
    """5 on the first are 50 %, as are 0.5 on the last: the mean is 33 %, though all of it is 26 %.

    The usual formula (docs: imbalance-bounds) is for equals: it would say 1.91.
    """
    problem = one([[5], [], [0.5]], capacity=[10.0, 10.0, 1.0])
    assert imbalance_bound(problem) == pytest.approx(1.5)
    assert max(usages(problem, [0, 2])) / np.mean(usages(problem, [0, 2])) == pytest.approx(1.5)


def test_bundles_that_take_different_resources_may_all_be_the_fullest() -> None:
    assert imbalance_bound(several([[(50, 0)], [(0, 50)]])) == 1.0
    # The same of each resource: as if there were one.
    same = [[(60, 60, 60)], [(20, 20, 20)], [(40, 40, 40)], []]
    assert imbalance_bound(several(same)) == pytest.approx(2.0)


def test_where_there_is_no_load_or_no_limit_or_nobody_it_is_1() -> None:
    assert imbalance_bound(one([])) == 1.0
    assert imbalance_bound(one([[], []])) == 1.0
    assert imbalance_bound(one([[0], [0]])) == 1.0
    assert imbalance_bound(one([[50], []], capacity=INF)) == 1.0
    assert imbalance_bound(one([[50], []], capacity=[100.0, INF])) == 1.0
    nobody = replace(one([[50], []]), is_counted=np.zeros(2, bool))
    assert imbalance_bound(nobody) == 1.0


def least(problem: BalanceProblem) -> float:
    """The least over every placement on the brokers that count."""
    counted = np.flatnonzero(problem.is_counted).tolist()
    ratios = [1e9]
    for owner in product(counted, repeat=len(problem.demand)):
        usage = np.array(usages(problem, owner))[counted]
        if usage.mean() > 0:
            ratios.append(float(usage.max() / usage.mean()))
    return min(ratios)


def few(problem: BalanceProblem, bundles: int = 4) -> BalanceProblem:
    """The first bundles of it."""
    return replace(
        problem,
        demand=problem.demand[:bundles],
        owner=problem.owner[:bundles],
        is_movable=problem.is_movable[:bundles],
        kind=problem.kind[:bundles],
        avoid=problem.avoid[:bundles],
    )


@settings(max_examples=60)
@given(problems().filter(lambda each: len(each.capacity) <= 4 and each.is_counted.any()))
def test_no_placement_beats_it(problem: BalanceProblem) -> None:
    small = few(problem)
    assert imbalance_bound(small) <= least(small) + 1e-9


@given(plain_problems())
def test_among_equals_it_is_the_largest_bundle_over_an_even_share(problem: BalanceProblem) -> None:
    share = problem.demand.sum() / len(problem.capacity)
    expected = max(1.0, float(problem.demand.max() / share))
    assert imbalance_bound(problem) == pytest.approx(expected)
