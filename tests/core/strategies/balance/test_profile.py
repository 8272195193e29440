"""Placing by the daily profile: what it reaches, what it leaves alone, what it never does."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.strategies.balance.profile import (
    HOURS,
    NOBODY,
    ProfileRules,
    imbalance_by_hour,
    profile_placement,
)

_DAY = np.array([1.0] * 12 + [3.0] * 12)
_NIGHT = _DAY[::-1]


def _owner(*numbers: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    return np.array(numbers, np.int32)


def test_bundles_that_are_busy_at_different_hours_share_a_broker() -> None:
    """By their mean all four are alike; two of the day on one broker make it 1.5 of the mean."""
    load = np.array([_DAY, _DAY, _NIGHT, _NIGHT])
    placed = profile_placement(load, _owner(0, 0, 1, 1), np.ones(2))
    assert placed.before.tolist() == [1.5] * HOURS
    assert placed.after.tolist() == [1.0] * HOURS
    assert sorted(placed.owner[:2].tolist()) == sorted(placed.owner[2:].tolist()) == [0, 1]
    assert len(placed.moves) == 2
    assert placed.moved_ratio == pytest.approx(0.5)


def test_bundles_that_are_in_place_already_stay() -> None:
    load = np.array([_DAY, _NIGHT, _DAY, _NIGHT])
    placed = profile_placement(load, _owner(1, 1, 0, 0), np.ones(2))
    assert placed.moves == ()
    assert placed.owner.tolist() == [1, 1, 0, 0]
    assert placed.moved_ratio == 0.0


def test_a_gain_below_the_price_moves_nothing() -> None:
    """1.05 and 0.95 of the mean: to move the 5 would make it even, and be worth 0.05."""
    load = np.outer([100.0, 5.0, 95.0], np.ones(HOURS))
    dear = profile_placement(load, _owner(0, 0, 1), np.ones(2), ProfileRules(price=0.06, kept=0.0))
    assert dear.moves == ()
    assert dear.after.max() == pytest.approx(1.05)
    cheap = profile_placement(load, _owner(0, 0, 1), np.ones(2), ProfileRules(price=0.04, kept=0.0))
    assert cheap.moves == (1,)
    assert cheap.after.max() == pytest.approx(1.0)


def test_a_broker_twice_as_large_gets_twice_as_much() -> None:
    load = np.ones((30, HOURS))
    placed = profile_placement(load, np.zeros(30, np.int32), np.array([5.0, 10.0]))
    assert np.bincount(placed.owner).tolist() == [10, 20]


def test_a_broker_that_has_less_at_night_gets_what_is_busy_by_day() -> None:
    """The first broker has three times as much by day as by night, the second by night."""
    load = np.array([_DAY, _NIGHT, _DAY, _NIGHT])
    less = np.array([_DAY, np.full(HOURS, 4.0) - _DAY])
    placed = profile_placement(load, _owner(0, 0, 1, 1), less)
    assert placed.owner.tolist() == [0, 1, 0, 1]
    assert placed.before.max() == pytest.approx(1.5)
    assert placed.after.tolist() == pytest.approx([1.0] * HOURS)


def test_a_bundle_without_an_owner_is_placed_where_nothing_else_moves() -> None:
    load = np.ones((4, HOURS))
    placed = profile_placement(load, _owner(0, 0, 1, NOBODY), np.ones(2))
    assert placed.owner.tolist() == [0, 0, 1, 1]
    assert placed.moves == (3,)


def test_bundles_that_may_not_move_stay_and_the_others_make_room() -> None:
    load = np.ones((4, HOURS))
    fixed = np.array([False, False, True, True])
    placed = profile_placement(load, _owner(1, 0, 0, 0), np.ones(2), is_movable=fixed == 0)
    assert placed.owner[2:].tolist() == [0, 0]
    assert placed.owner[:2].tolist() == [1, 1]


def test_arrays_that_do_not_fit_are_refused() -> None:
    load = np.ones((2, HOURS))
    for bad in (_owner(0), _owner(0, 2), _owner(0, -2)):
        with pytest.raises(ValueError, match=r"fit|brokers"):
            profile_placement(load, bad, np.ones(2))
    with pytest.raises(ValueError, match="above 0"):
        profile_placement(load, _owner(0, 1), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="finite"):
        profile_placement(load * np.nan, _owner(0, 1), np.ones(2))


def test_a_large_cluster_comes_close_to_evenness_with_half_of_its_load_moved() -> None:
    """5,800 bundles in three regions on 100 brokers, drawn without regard to load."""
    draw = np.random.default_rng(1)
    bases = draw.lognormal(0, 1.2, 5_800).clip(0, 6)
    hours = np.arange(HOURS) + draw.choice([0, 8, 16], 5_800)[:, None]
    load = bases[:, None] * (1 + 0.35 * np.sin(2 * np.pi * hours / HOURS))
    placed = profile_placement(load, draw.integers(0, 100, 5_800).astype(np.int32), np.ones(100))
    assert placed.before.max() > 1.4
    assert placed.after.max() < 1.04
    assert placed.moved_ratio < 0.55


@st.composite
def _problems(draw: st.DrawFn) -> tuple[object, ...]:
    brokers, bundles = draw(st.integers(1, 5)), draw(st.integers(0, 12))
    hours = draw(st.sampled_from([1, 3, HOURS]))
    source = np.random.default_rng(draw(st.integers(0, 1_000_000)))
    load = source.lognormal(0, 1.5, (bundles, hours)) * source.integers(0, 2, (bundles, 1))
    owner = source.integers(NOBODY, brokers, bundles).astype(np.int32)
    return load, owner, source.uniform(0.5, 4, brokers), source.integers(0, 2, bundles) > 0


@given(problem=_problems(), price=st.floats(0, 0.2), kept=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_a_placement_is_never_worse_than_the_start_and_always_the_same(
    problem: tuple[object, ...], price: float, kept: float
) -> None:
    load, owner, sizes, is_movable = (np.asarray(each) for each in problem)
    given_owner, rules = owner.copy(), ProfileRules(price, kept)
    placed = profile_placement(load, owner, sizes, rules, is_movable=is_movable)
    assert (owner == given_owner).all()
    fixed = (owner != NOBODY) & ~is_movable
    assert (placed.owner[fixed] == owner[fixed]).all()
    assert ((placed.owner >= 0) & (placed.owner < len(sizes))).all()
    assert set(placed.moves) == set(np.flatnonzero(placed.owner != owner).tolist())
    assert placed.after.max() <= placed.before.max() + 1e-9
    assert np.percentile(placed.after, 99) <= np.percentile(placed.before, 99) + 1e-9
    assert placed.after == pytest.approx(imbalance_by_hour(load, placed.owner, sizes))
    if (owner != NOBODY).all():
        assert placed.before == pytest.approx(imbalance_by_hour(load, owner, sizes))
    again = pickle.loads(pickle.dumps(profile_placement))(
        load, owner, sizes, rules, is_movable=is_movable
    )
    assert (again.owner == placed.owner).all()
    assert again.moves == placed.moves
