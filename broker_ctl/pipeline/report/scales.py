"""Ends of axes, and how far apart the values along them may be."""

import math
from collections.abc import Iterable
from typing import Final

from matplotlib.ticker import MaxNLocator

from broker_ctl.pipeline.report.values import Axis

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
_MOST_MARKS: Final = 5


def width_of(span_ms: int, most: int) -> int:
    """The shortest of `WIDTHS_MS` of which at most ``most`` make the span."""
    return next((each for each in WIDTHS_MS if span_ms / each <= most), WIDTHS_MS[-1])


def axis(says: str, unit: str, values: Iterable[float | None], low: float | None = None) -> Axis:
    """From the lowest value, or ``low``, to the highest one, with round ends."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    start = min(known, default=0.0) if low is None else low
    end = max(known, default=start)
    # A flat line is in the middle of something.
    end = end if end > start else start + max(abs(start), 1.0)
    # Round ends are farther apart, which may want larger steps; the second time they fit.
    for _ in range(2):
        first, *_, last = locator().tick_values(start if low is None else low, end)
        start, end = first, last
    return Axis(says, unit, round(float(first), 12) if low is None else low, round(float(last), 12))


def locator() -> MaxNLocator:
    """Where an axis has marks."""
    return MaxNLocator(_MOST_MARKS, steps=[1, 2, 2.5, 5, 10])
