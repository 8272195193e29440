"""Ends of axes, and where they have marks."""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from broker_ctl.pipeline.report.figures import TIME, figure
from broker_ctl.pipeline.report.values import Axis, Level

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
# Of time: what a value or a mark may be apart.
WIDTHS_MS: Final = (
    *(1_000, 5_000, 15_000),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR_MS for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY_MS for days in (1, 2, 7, 14, 28, 91, 364)),
)
_ROUND: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_MARKS: Final = 5
_MOST_TIMES: Final = 5


def width_of(span_ms: int, most: int) -> int:
    """The shortest of `WIDTHS_MS` of which no more than so many make the span."""
    return next((each for each in WIDTHS_MS if span_ms / each <= most), WIDTHS_MS[-1])


def axis(says: str, unit: str, values: Iterable[float | None], low: float | None = None) -> Axis:
    """From the lowest value, or ``low``, to the highest one, with round ends."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    start = min(known, default=0.0) if low is None else low
    end = max(known, default=start)
    # A flat line is in the middle of something.
    end = end if end > start else start + max(abs(start), 1.0)
    first, last = start, end
    # Round ends are farther apart, which may want larger steps; the second time they fit.
    for _ in range(2):
        step = _step(last - first)
        first = math.floor(start / step + 1e-9) * step if low is None else low
        last = first + math.ceil((end - first) / step - 1e-9) * step
    return Axis(says, unit, round(first, 12), round(last, 12))


def marks(of: Axis) -> Iterator[Level]:
    """Where it has a mark, and what it says."""
    if of.unit == TIME:
        yield from _times(of)
        return
    step = _step(of.high - of.low)
    for number in range(int((of.high - of.low) / step + 1e-9) + 1):
        value = round(of.low + number * step, 12)
        yield Level(figure(value), value)


def part_of(axis_: Axis, value: float) -> float:
    """Where along the axis a value is, from 0 to 1; what is beyond an end is at it."""
    return min(max((value - axis_.low) / (axis_.high - axis_.low), 0.0), 1.0)


def _step(span: float) -> float:
    size = 10.0 ** math.floor(math.log10(span / _MOST_MARKS))
    return next(each for each in (unit * size for unit in _ROUND) if span / each <= _MOST_MARKS)


def _times(of: Axis) -> Iterator[Level]:
    step = width_of(round(of.high - of.low), _MOST_TIMES)
    form = "%H:%M:%S" if step < _MINUTE_MS else "%H:%M" if step < _DAY_MS else "%d %b"
    at_ms = math.ceil(of.low / step) * step
    while at_ms <= of.high:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        # Midnight says which day begins.
        yield Level(at.strftime("%d %b" if at_ms % _DAY_MS == 0 else form), float(at_ms))
        at_ms += step
