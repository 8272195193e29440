"""The benchmark of the optimum: what the solver finds is what counting finds, and its object."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from broker_ctl.core.strategies.balance.problem import BalanceProblem, Indices
from tests.benchmarks.optimal.cases import MOST_BUNDLES, draw_case
from tests.benchmarks.optimal.course import joined
from tests.benchmarks.optimal.day import Day, least_of
from tests.benchmarks.optimal.solver import fullest, least_maximum, least_moved

SCRIPT = Path(__file__).parents[1] / "optimum.py"
SECONDS = 20.0


@pytest.fixture(scope="module")
def problem() -> BalanceProblem:
    """Two resources on three brokers: 729 placements."""
    demand = np.array([[4.0, 1.0], [3.0, 3.0], [2.0, 5.0], [1.0, 1.0], [5.0, 2.0], [2.0, 2.0]])
    capacity = np.array([[10.0, 10.0], [10.0, 10.0], [20.0, 20.0]])
    return BalanceProblem.plain(demand, capacity, np.array([0, 0, 0, 1, 1, 1], np.int32))


def placements(problem: BalanceProblem) -> list[Indices]:
    brokers = range(len(problem.capacity))
    every = itertools.product(brokers, repeat=len(problem.demand))
    return [np.array(owner, np.int32) for owner in every]


def test_the_least_maximum_is_that_of_all_placements(problem: BalanceProblem) -> None:
    least = min(fullest(problem, owner) for owner in placements(problem))
    found = least_maximum(problem, problem.owner, SECONDS)
    assert found.value == pytest.approx(least, rel=1e-3)
    assert found.is_proven


@pytest.mark.parametrize("most", [0.5, 0.55, 0.7, 0.9])
def test_the_least_moved_load_is_that_of_all_placements(
    problem: BalanceProblem, most: float
) -> None:
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    able = [owner for owner in placements(problem) if fullest(problem, owner) <= most]
    costs = [float(weight[owner != problem.owner].sum()) for owner in able]
    found = least_moved(problem, weight, most, able[int(np.argmax(costs))], SECONDS)
    assert found.value == pytest.approx(min(costs), abs=1e-3)


def test_who_knows_the_day_moves_once() -> None:
    """A third of all load has to leave the first broker; in the second period nothing has to."""
    load = np.array([[4.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    day = Day(load, np.array([0, 0, 1], np.int32), np.ones((2, 2)), load)
    found = least_of(day, 1.0, SECONDS)
    assert found == pytest.approx(1 / 3, abs=1e-4)


def test_what_is_on_a_broker_that_goes_has_to_move_and_may_stay_away() -> None:
    load = np.array([[4.0, 1.0, 1.0]] * 3)
    there = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    day = Day(load, np.array([0, 1, 1], np.int32), there, load)
    # A third of all load goes to the other one; in the end it gives as much back.
    assert least_of(day, 4 / 3, SECONDS) == pytest.approx(1 / 3 + 1 / 3, abs=1e-4)
    assert least_of(day, 2.0, SECONDS) == pytest.approx(1 / 3, abs=1e-4)


def test_drawn_cases_are_small_and_what_is_split_is_small_in_them() -> None:
    for number in range(24):
        case = draw_case(number)
        assert len(case.problem.demand) <= MOST_BUNDLES
        share = case.problem.demand / (case.problem.demand.sum(axis=0) / len(case.problem.capacity))
        assert not case.is_split or share.max() <= 0.1 + 1e-9
        assert case.weight.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_two_cases_are_one_object() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--cases", "2", "--seconds", "0.2"],
        capture_output=True,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert found["cases"] == 2
    assert 0 <= found["median_max_gap"]["all"] <= found["median_max_over_bound"]
    assert len(found["worst_moved"]) == 2
    assert b"case 1: " in done.stderr
    halves = [{**found, "gaps": found["gaps"][:1]}, {**found, "gaps": found["gaps"][1:]}]
    together = joined(halves)
    assert (together["cases"], together["gaps"]) == (2, found["gaps"])
    assert together["median_moved_over_bound"] == found["median_moved_over_bound"]
