"""The Pareto front, by hand and by property."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from broker_ctl.pipeline.backtest.judging import find_pareto_front

Floats = NDArray[np.float64]

points: st.SearchStrategy[Floats] = st.lists(
    st.tuples(*[st.integers(0, 4).map(float)] * 3), min_size=1, max_size=12
).map(np.array)


def test_a_point_is_beaten_by_one_that_is_nowhere_worse() -> None:
    three = np.array(
        [
            [1.10, 0.5, 3.0],
            [1.20, 0.1, 3.0],  # even less, for less moved
            [1.20, 0.5, 3.0],  # as good as the first in two, worse in one
            [1.05, 9.0, 0.0],
            [1.10, 0.5, 3.0],  # the first one again: they do not beat each other
        ]
    )
    assert find_pareto_front(three).tolist() == [True, True, False, True, True]


def test_a_measure_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        find_pareto_front(np.array([[1.0, np.nan, 0.0]]))


def beats(one: Floats, other: Floats) -> bool:
    return bool(all(one <= other) and any(one < other))


@given(points)
def test_the_front_holds_the_points_that_no_point_beats_and_beats_the_others(
    drawn: Floats,
) -> None:
    is_on = find_pareto_front(drawn)
    assert is_on.any()
    best = drawn[is_on]
    for point, is_best in zip(drawn, is_on, strict=True):
        assert any(beats(other, point) for other in best) is not bool(is_best)


@given(points, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(drawn: Floats, draw: Random) -> None:
    order = list(range(len(drawn)))
    draw.shuffle(order)
    assert find_pareto_front(drawn[order]).tolist() == find_pareto_front(drawn)[order].tolist()
