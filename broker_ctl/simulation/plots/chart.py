"""The data of a plot of replays, before it is rendered as text or SVG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.replay.record import Floats, Replay, after_warm_up

_HOUR_MIN: Final = 60
_TIME_STEPS_MIN: Final = (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880)
_MOST_TIMES: Final = 8
_LEAST_TOP: Final = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One policy.

    Attributes:
        ratios: largest usage over mean usage, by minute; the first is minute 0.
        moves: the minute of each move.
    """

    label: str
    ratios: Floats
    moves: tuple[int, ...] = ()

    @classmethod
    def of(cls, label: str, replay: Replay) -> "Curve":
        """What a replay has shown."""
        return cls(label, replay.max_over_mean, tuple(move.minute for move in replay.moves))

    @property
    def moves_text(self) -> str:
        """For people: ``12 moves``."""
        return f"{len(self.moves)} move{'' if len(self.moves) == 1 else 's'}"


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Policies in one scenario: curves of equal length, one at least.

    Attributes:
        bound: what no placement can beat.
    """

    title: str
    bound: float
    curves: Sequence[Curve]

    @property
    def minutes(self) -> int:
        """How long it goes on."""
        return len(self.curves[0].ratios)

    @property
    def top(self) -> float:
        """The largest ratio that is shown; what the first minutes are like may be cut off."""
        most = (float(after_warm_up(curve.ratios).max()) for curve in self.curves)
        return max(_LEAST_TOP, self.bound, *most)


def spans(series: Floats, columns: int) -> Iterator[tuple[float, float]]:
    """Lowest and highest value in each column: a peak of one minute is seen at any width."""
    count = len(series)
    for column in range(columns):
        start = column * count // columns
        part = series[start : max(start + 1, (column + 1) * count // columns)]
        yield float(part.min()), float(part.max())


def counts(minutes: Sequence[int], total: int, columns: int) -> NDArray[np.int64]:
    """How many of ``minutes``, each less than ``total``, fall into each column."""
    places = np.array(minutes, dtype=np.int64) * columns // total
    return np.bincount(places, minlength=columns).astype(np.int64)


def times(minutes: int) -> Iterator[tuple[int, str]]:
    """Where the axis has a mark, and what it says."""
    fitting = (step for step in _TIME_STEPS_MIN if minutes // step <= _MOST_TIMES)
    step = next(fitting, _TIME_STEPS_MIN[-1])
    for minute in range(0, minutes + 1, step):
        is_hours = step >= _HOUR_MIN
        yield minute, f"{minute // _HOUR_MIN} h" if is_hours else f"{minute} min"
