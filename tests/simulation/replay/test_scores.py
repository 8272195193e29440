"""Scores of replays that were made by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.names import Bundle
from broker_ctl.simulation.replay.cluster import MoveCause, Moved, Replay, ReplayRecord
from broker_ctl.simulation.replay.scores import back_and_forth, scores_of
from tests.support.pipeline.small_scenarios import MB, bundles_of, small

FIRST, SECOND, *_ = bundles_of(4)
ALL = 100 * MB


def replayed(rows: Sequence[Sequence[float]], moves: Sequence[Moved] = ()) -> Replay:
    """Two or three brokers at these usages, one row a minute."""
    brokers = ("a", "b", "c")[: len(rows[0])]
    scenario = small((40.0, 30.0, 20.0, 10.0), ("a",) * 4, minutes=len(rows), brokers=brokers)
    usage = [np.array(row) for row in rows]
    record = ReplayRecord(usage=usage, offered_bytes=[ALL] * len(rows), moves=list(moves))
    return record.finished(scenario, brokers)


def move(
    minute: int,
    source: str,
    destination: str,
    *,
    bundle: Bundle = FIRST,
    cause: MoveCause = MoveCause.LOAD,
    mb: float = 10.0,
) -> Moved:
    return Moved(minute, bundle, source, destination, mb * MB, Reason.OVERLOADED, cause)


def test_percentiles_are_of_the_minutes_after_the_first_ten() -> None:
    rows = [[0.9, 0.1]] * 10 + [[0.5, 0.5]] * 50 + [[0.6, 0.4]] * 49 + [[0.75, 0.25]]
    scores = scores_of(replayed(rows))
    # Of 100 minutes: fifty at 1.0, then 1.2, and one at 1.5.
    assert scores.p50 == pytest.approx(1.1)
    assert scores.p99 == pytest.approx(1.2 + 0.01 * 0.3)
    assert scores.most == pytest.approx(1.5)
    assert scores.to_row()["max"] == scores.most


def test_a_broker_that_is_down_counts_in_neither() -> None:
    scores = scores_of(replayed([[0.6, 0.4, np.nan]] * 12))
    assert scores.p50 == pytest.approx(1.2)


def test_brokers_without_any_load_are_even() -> None:
    assert scores_of(replayed([[0.0, 0.0]] * 12)).most == 1.0


def test_load_moved_is_per_hour_and_of_the_load_of_that_time() -> None:
    moves = [move(0, "a", "b", mb=10.0), move(50, "b", "a", mb=20.0, cause=MoveCause.DEATH)]
    scores = scores_of(replayed([[0.5, 0.5]] * 120, moves))
    assert scores.load_moved_pct_per_h == pytest.approx(15.0)
    assert scores.moves == 2


def test_a_replay_has_settled_at_the_first_minute_within_fifteen_percent() -> None:
    rows = [[0.7, 0.3], [0.6, 0.4], [0.57, 0.43], [0.7, 0.3]]
    assert scores_of(replayed(rows)).settle_min == 2
    assert scores_of(replayed([[0.7, 0.3]] * 4)).settle_min is None


def test_minutes_of_overload_are_counted_for_each_broker() -> None:
    rows = [[0.9, 0.86], [0.85, 0.84], [1.3, np.nan]]
    assert scores_of(replayed(rows)).overload_broker_min == 3


def test_a_bundle_that_returns_within_the_hour_went_back_and_forth() -> None:
    there, back = move(5, "a", "b"), move(65, "b", "a")
    assert back_and_forth([there, back]) == 1
    assert back_and_forth([there, move(66, "b", "a")]) == 0
    assert back_and_forth([there, move(20, "b", "c")]) == 0
    assert back_and_forth([there, move(20, "b", "c"), move(30, "c", "a")]) == 1
    assert back_and_forth([there, move(20, "b", "a", bundle=SECOND)]) == 0


def test_a_part_of_a_bundle_that_returns_went_back_and_forth_as_well() -> None:
    part, _ = FIRST.cut((FIRST.range.high // 2,))
    assert back_and_forth([move(5, "a", "b"), move(9, "b", "a", bundle=part)]) == 1


@pytest.mark.parametrize("cause", [MoveCause.DRAIN, MoveCause.DEATH, MoveCause.REFILL])
def test_a_move_because_of_a_drain_a_death_or_a_refill_is_not_back_and_forth(
    cause: MoveCause,
) -> None:
    assert back_and_forth([move(5, "a", "b", cause=cause), move(9, "b", "a")]) == 0
    assert back_and_forth([move(5, "a", "b"), move(9, "b", "a", cause=cause)]) == 0
