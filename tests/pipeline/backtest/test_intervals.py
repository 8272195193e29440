"""Means and their intervals, by hand and by property."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.pipeline.backtest.judging import mean_interval

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12).map(np.array)


def test_of_two_values_either_may_be_drawn_twice() -> None:
    # A quarter of all resamples are (1, 1), a quarter (4, 4): both are in the interval.
    assert mean_interval(np.array([1.0, 4.0])) == (2.5, 1.0, 4.0)


def test_the_interval_of_ten_values_of_one_or_zero_follows_the_binomial_law() -> None:
    # Means are B(10, 0.5)/10: P(X <= 1) = 1.07 %, P(X <= 2) = 5.47 %: 2.5 % lie at 2, and 8 above.
    assert mean_interval(np.array([0.0, 1.0] * 5)) == (0.5, 0.2, 0.8)


def test_many_values_have_the_interval_of_a_normal_law() -> None:
    drawn = np.random.Generator(np.random.PCG64(5)).normal(3.0, 2.0, 400)
    mean, low, high = mean_interval(drawn)
    half = 1.96 * drawn.std() / math.sqrt(400)
    assert mean == pytest.approx(drawn.mean())
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.06)


def test_one_value_says_nothing_of_how_sure_it_is() -> None:
    assert mean_interval(np.array([7.0])) == (7.0, -math.inf, math.inf)
    with pytest.raises(ValueError, match="no values"):
        mean_interval(np.array([]))


@settings(max_examples=25)
@given(values)
def test_an_interval_holds_the_mean_and_lies_within_the_values(drawn: Floats) -> None:
    mean, low, high = mean_interval(drawn)
    assert low <= mean <= high
    slack = 1e-9 * (1 + float(np.abs(drawn).max()))
    assert drawn.min() - slack <= low <= high <= drawn.max() + slack
    assert mean_interval(drawn.copy()) == (mean, low, high)


@settings(max_examples=25)
@given(values, st.floats(-1e6, 1e6))
def test_an_interval_moves_with_its_values(drawn: Floats, by: float) -> None:
    moved = mean_interval(drawn + by)
    expected = [each + by for each in mean_interval(drawn)]
    assert moved == pytest.approx(expected, rel=1e-9, abs=1e-6)


@settings(max_examples=25)
@given(values)
def test_an_interval_turns_round_with_its_values(drawn: Floats) -> None:
    mean, low, high = mean_interval(drawn)
    assert mean_interval(-drawn) == pytest.approx((-mean, -high, -low), rel=1e-9, abs=1e-6)
