"""The imbalance of the past as a line, over the decisions of the same time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.console.pages.bars import Band
from broker_ctl.console.pages.frame import Row

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
# The line has some room above it.
_HEADROOM: Final = 1.05
_LEAST_TOP: Final = 1.2
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """A span of time on the width of a picture."""

    begin_ms: int
    end_ms: int

    def x(self, at_ms: int) -> float:
        """The place of a time, in thousandths."""
        span = max(1, self.end_ms - self.begin_ms)
        return round(max(0.0, min(1.0, (at_ms - self.begin_ms) / span)) * WIDTH, 1)

    @property
    def ticks(self) -> tuple[int, ...]:
        """Times at even distances, the ends among them."""
        step = (self.end_ms - self.begin_ms) / (_TICKS - 1)
        return tuple(int(self.begin_ms + step * number) for number in range(_TICKS))


@dataclass(frozen=True, slots=True)
class Trace:
    """The line, from 1.0 at the bottom to ``top``; ``low`` and ``high`` are the band's places.

    Attributes:
        line: points of a polyline, as SVG writes them; empty: fewer than two are known.
        first, worst, last: imbalance at the begin, the highest one, and the newest one.
    """

    axis: Axis
    line: str
    points: int
    top: float
    low: float
    high: float
    first: float
    worst: float
    last: float


def trace_of(rows: Sequence[Row], band: Band, axis: Axis | None = None) -> Trace | None:
    """The trace of the leader's points, the oldest first; None: there are not two in the span."""
    known: list[tuple[int, float]] = [
        (row["at_ms"], row["usage_imbalance"])
        for row in rows
        if row["usage_imbalance"] is not None and (axis is None or row["at_ms"] >= axis.begin_ms)
    ]
    if len(known) < 2:
        return None
    axis = Axis(known[0][0], known[-1][0]) if axis is None else axis
    values = [value for _, value in known]
    top = max(_LEAST_TOP, max(values) * _HEADROOM)

    def y(value: float) -> float:
        return round(HEIGHT - (value - 1.0) / (top - 1.0) * HEIGHT, 1)

    line = " ".join(f"{axis.x(at_ms)},{y(value)}" for at_ms, value in known)
    return Trace(
        axis, line, len(known), top, y(band.low), y(band.high), values[0], max(values), values[-1]
    )
