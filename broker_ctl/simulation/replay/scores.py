"""Scores of a replay (docs: load-history-sources, planner-sources)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from broker_ctl.simulation.replay.lower_bound import bound_of
from broker_ctl.simulation.replay.record import Cause, Moved, Replay, after_warm_up

_HOUR_MIN: Final = 60
_SETTLED: Final = 1.15
_NEAR_BOUND: Final = 1.05
OVERLOADED_RATIO: Final = 0.85


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one replay.

    Attributes:
        p50, p99, most: of the largest usage over the mean usage of the brokers that are there,
            sampled each minute; the first ten are left out.
        load_moved_pct_per_h: bytes/s that changed hands over bytes/s of all, each at the time of
            its move, for whatever cause; percent an hour.
        moves: bundles that changed hands, for whatever cause.
        back_and_forth: moves back to a broker that the bundle, or what it was made of, had left
            within the hour; none that came of a drain, a death or a refill counts, to or fro.
        settle_min: minutes from the start until the largest usage is within 1.15 of the mean, or
            within 1.05 of the bound where that is more; None: it never is.
        overload_broker_min: minutes of brokers above 85 % of their capacity.
    """

    p50: float
    p99: float
    most: float
    load_moved_pct_per_h: float
    moves: int
    back_and_forth: int
    settle_min: int | None
    overload_broker_min: int

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "p50": self.p50,
            "p99": self.p99,
            "max": self.most,
            "load_moved_pct_per_h": self.load_moved_pct_per_h,
            "moves": self.moves,
            "back_and_forth": self.back_and_forth,
            "settle_min": self.settle_min,
            "overload_broker_min": self.overload_broker_min,
        }


def scores_of(replay: Replay) -> Scores:
    """Judge a replay."""
    ratios = replay.max_over_mean
    sampled = after_warm_up(ratios)
    p50, p99, most = np.percentile(sampled, [50, 99, 100]).tolist()
    limit = max(_SETTLED, _NEAR_BOUND * bound_of(replay.scenario))
    settled: list[int] = np.flatnonzero(ratios <= limit).tolist()
    return Scores(
        p50=p50,
        p99=p99,
        most=most,
        load_moved_pct_per_h=_load_moved_pct_per_h(replay),
        moves=len(replay.moves),
        back_and_forth=back_and_forth(replay.moves),
        settle_min=settled[0] if settled else None,
        overload_broker_min=int(np.count_nonzero(replay.usage > OVERLOADED_RATIO)),
    )


def back_and_forth(moves: Iterable[Moved]) -> int:
    """Moves that undo another one of the last hour; ``moves`` come in their order."""
    lately: deque[Moved] = deque()
    count = 0
    for move in moves:
        if move.cause is not Cause.LOAD:
            continue
        while lately and move.minute - lately[0].minute > _HOUR_MIN:
            lately.popleft()
        count += any(
            past.source == move.destination and past.bundle.overlaps(move.bundle) for past in lately
        )
        lately.append(move)
    return count


def _load_moved_pct_per_h(replay: Replay) -> float:
    offered = replay.offered_bytes
    parts = [
        move.bytes_s / offered[move.minute] for move in replay.moves if offered[move.minute] > 0
    ]
    return float(sum(parts)) * 100 * _HOUR_MIN / len(offered)
