"""Combinations of settings, all of them or drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.errors import SettingsError
from broker_ctl.pipeline.backtest.sweeps import SweepSpan, SweepValues, dimension, grid, sample_grid


def test_every_combination_is_a_point_and_its_keys_are_in_order() -> None:
    points = grid([dimension("b=1,2,1"), dimension("a = x , y")])
    assert points == [("a=x", "b=1"), ("a=x", "b=2"), ("a=y", "b=1"), ("a=y", "b=2")]
    assert grid([]) == []


def test_a_comma_may_belong_to_a_value() -> None:
    assert dimension(r"strategies=A\,B,C") == SweepValues("strategies", ("A,B", "C"))
    assert dimension("k=-1..2.5") == SweepSpan("k", "-1", "2.5")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key", "KEY=VALUE,VALUE"),
        ("=1", "KEY=VALUE,VALUE"),
        ("key=1,,2", "KEY=VALUE,VALUE"),
        ("key=a b", "a blank"),
        ("key=2..1", "the lower one first"),
        ("key=a..b", "two numbers"),
    ],
)
def test_a_malformed_dimension_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        dimension(text)


def test_a_sweep_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"k=1\.\.2: out of a range values are drawn"):
        grid([dimension("k=1..2")])
    with pytest.raises(SettingsError, match="10000"):
        grid([SweepValues(name, tuple(map(str, range(101)))) for name in "ab"])
    with pytest.raises(SettingsError, match="k is given twice"):
        grid([dimension("k=1"), dimension("k=2")])
    with pytest.raises(SettingsError, match="4 different points; no more than 3"):
        sample_grid([dimension("k=7..9")], 4, seed=1)
    with pytest.raises(SettingsError, match="nothing to draw from"):
        sample_grid([], 4, seed=1)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_draws_differ_lie_within_their_ranges_and_are_repeated_by_their_seed(
    seed: int, count: int
) -> None:
    dimensions = [dimension("whole=5..60"), dimension("part=0.5..0.75"), dimension("name=a,b")]
    points = sample_grid(dimensions, count, seed)
    assert len(set(points)) == count
    for point in points:
        name, part, whole = (text.partition("=")[2] for text in point)
        assert [text.partition("=")[0] for text in point] == ["name", "part", "whole"]
        assert name in {"a", "b"}
        assert 0.5 <= float(part) <= 0.75
        assert 5 <= int(whole) <= 60
    assert sample_grid(dimensions[::-1], count, seed) == points
