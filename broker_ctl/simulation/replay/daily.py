"""Scores of a replay by day: what one day says, the next may not."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.simulation.replay.record import Replay, after_warm_up
from broker_ctl.simulation.replay.scores import OVERLOADED_RATIO

_DAY_MIN: Final = 24 * 60
_DAY_HOURS: Final = 24


class DayScores(NamedTuple):
    """Of 24 hours, counted from the start; see `scores.Scores`."""

    p99: float
    load_moved_pct_per_h: float
    overload_broker_min: int


def scores_by_day(replay: Replay) -> Iterator[DayScores]:
    """Yield the scores of each whole day."""
    ratios, offered = replay.max_over_mean, replay.offered_bytes
    for start in range(0, len(ratios) - _DAY_MIN + 1, _DAY_MIN):
        end = start + _DAY_MIN
        sampled = ratios[start:end] if start else after_warm_up(ratios[:end])
        moved = [
            move.bytes_s / offered[move.minute]
            for move in replay.moves
            if start <= move.minute < end and offered[move.minute] > 0
        ]
        yield DayScores(
            p99=float(np.percentile(sampled, 99)),
            load_moved_pct_per_h=float(sum(moved)) * 100 / _DAY_HOURS,
            overload_broker_min=int(np.count_nonzero(replay.usage[start:end] > OVERLOADED_RATIO)),
        )
