"""Scores of a replay by day, made by hand."""

import pytest

from broker_ctl.simulation.replay.cluster import Replay
from broker_ctl.simulation.replay.scores import scores_by_day, scores_of
from tests.simulation.replay.test_scores import move, replayed

DAY_MIN = 1440
EVEN, UNEVEN, FULL = [0.5, 0.5], [0.6, 0.4], [0.9, 0.1]


def two_days() -> Replay:
    rows = [FULL] * 10 + [EVEN] * (DAY_MIN - 10) + [UNEVEN] * (DAY_MIN - 1) + [FULL] + [EVEN] * 60
    moves = [
        move(5, "a", "b"),
        move(DAY_MIN, "b", "a"),
        move(2 * DAY_MIN - 1, "a", "b", mb=20.0),
        move(2 * DAY_MIN, "b", "a"),
    ]
    return replayed(rows, moves)


def test_each_whole_day_has_its_own_scores() -> None:
    first, second = scores_by_day(two_days())
    # The first minutes, before anything acted, are in no percentile.
    assert tuple(first) == pytest.approx((1.0, 10 / 24, 10))
    assert tuple(second) == pytest.approx((1.2, 30 / 24, 1))


def test_of_one_day_they_are_those_of_the_replay() -> None:
    replay = replayed([FULL] * 10 + [EVEN] * 700 + [UNEVEN] * 730, [move(700, "a", "b")])
    (day,) = scores_by_day(replay)
    whole = scores_of(replay)
    expected = (whole.p99, whole.load_moved_pct_per_h, whole.overload_broker_min)
    assert tuple(day) == pytest.approx(expected)


def test_less_than_a_day_has_none() -> None:
    assert list(scores_by_day(replayed([EVEN] * 1439))) == []
