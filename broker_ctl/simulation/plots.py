"""Plots of replays: as text in braille dots, and as pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.simulation.replay.cluster import Replay, after_warm_up

# The data of a plot of replays, before it is rendered as text or SVG.


_HOUR_MIN: Final = 60
_TIME_STEPS_MIN: Final = (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880)
_MOST_TIMES: Final = 8
_LEAST_TOP: Final = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class PlotCurve:
    """One policy.

    Attributes:
        ratios: largest usage over mean usage, by minute; the first is minute 0.
        moves: the minute of each move.
    """

    label: str
    ratios: Floats
    moves: tuple[int, ...] = ()

    @classmethod
    def of(cls, label: str, replay: Replay) -> "PlotCurve":
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
    curves: Sequence[PlotCurve]

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


# A plot of replays as text: a panel for each policy, all at one scale, drawn in braille dots.


_Dots = NDArray[np.bool_]

_ROWS: Final = 6
_GUTTER: Final = len("99.99 ┤")
_LEAST_COLUMNS: Final = 16
_BLANK: Final = 0x2800
# Of each dot in a character, four rows of two.
_BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_DOT_ROWS: Final = 4 * _ROWS
# Dots per dot of the bound line.
_BOUND_EVERY: Final = 4
_BARS: Final = " ▁▂▃▄▅▆▇█"


def text_plot(chart: Chart, width: int) -> str:
    """Draw the chart ``width`` characters wide, at least 23; the caller prints the title.

    Each panel has the largest over the mean usage by time, the bound as a dotted line, and how many
    moves there were, the highest bar being the most of any policy.
    """
    columns = max(width - _GUTTER, _LEAST_COLUMNS)
    moves = [counts(curve.moves, chart.minutes, columns) for curve in chart.curves]
    most = max(1, *(int(each.max()) for each in moves))
    lines: list[str] = []
    for curve, bars in zip(chart.curves, moves, strict=True):
        lines.append(f"{curve.label}: largest over mean usage, and {curve.moves_text}")
        lines += _panel(chart, curve, columns)
        lines.append(_gutter("moves", " ") + "".join(_bar(count, most) for count in bars.tolist()))
    lines.append(_axis(chart.minutes, columns))
    return "\n".join(line.rstrip() for line in lines)


def _panel(chart: Chart, curve: PlotCurve, columns: int) -> Iterator[str]:
    top = chart.top
    dots = _dots(curve, top, columns)
    dots[_row(chart.bound, top), ::_BOUND_EVERY] = True
    for number, row in enumerate(_braille(dots)):
        # What the dots in the middle of this line stand for.
        ratio = top - (top - 1) * number / (_ROWS - 1)
        label = f"{ratio:.2f}" if number % 2 == 0 or number == _ROWS - 1 else ""
        yield _gutter(label, "┤") + row


def _dots(curve: PlotCurve, top: float, columns: int) -> _Dots:
    """From the lowest to the highest ratio of each column, joined with the column before."""
    dots = np.zeros((_DOT_ROWS, 2 * columns), dtype=np.bool_)
    before = None
    for column, (low, high) in enumerate(spans(curve.ratios, 2 * columns)):
        upper, lower = _row(high, top), _row(low, top)
        if before is None:
            before = upper, lower
        dots[min(upper, before[1]) : max(lower, before[0]) + 1, column] = True
        before = upper, lower
    return dots


def _row(ratio: float, top: float) -> int:
    """From above; what is beyond the scale is at its end."""
    part = min(max((ratio - 1) / (top - 1), 0.0), 1.0)
    return round((1 - part) * (_DOT_ROWS - 1))


def _braille(dots: _Dots) -> Iterator[str]:
    rows, columns = dots.shape
    cells = dots.reshape(rows // 4, 4, columns // 2, 2)
    codes: Sequence[Sequence[int]] = np.einsum("racd,ad->rc", cells, _BITS).tolist()
    for row in codes:
        yield "".join(chr(_BLANK + code) if code else " " for code in row)


def _bar(count: int, most: int) -> str:
    """The least move is seen."""
    return _BARS[-(-count * (len(_BARS) - 1) // most)]


def _axis(minutes: int, columns: int) -> str:
    line = [" "] * (columns + len("99999 min"))
    for minute, label in times(minutes):
        place = minute * columns // minutes
        # The last one ends where the plot ends, and gives way to the one before.
        place = min(place, columns - len(label))
        if not "".join(line[max(place - 1, 0) : place + len(label)]).strip():
            line[place : place + len(label)] = label
    return " " * _GUTTER + "".join(line)


def _gutter(label: str, mark: str) -> str:
    return f"{label:>{_GUTTER - 2}} {mark}"
