"""How even the load was in the past: one point a cycle, bounded however long a leader leads."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

MOST_POINTS: Final = 720


@dataclass(frozen=True, slots=True)
class BalancePoint:
    """Imbalance at one time, as max over mean; None: no load.

    Attributes:
        at_ms: of the view, in ms since 1970.
    """

    at_ms: int
    usage: float | None
    throughput: float | None

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "at_ms": self.at_ms,
            "usage_imbalance": self.usage,
            "throughput_imbalance": self.throughput,
        }


class BalanceTrace:
    """The points of one term, oldest first.

    Where there is no more room, two neighbours become one, the less even one: old and new points
    lie equally far apart, and a peak stays.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most = most_points
        self._points: list[BalancePoint] = []
        # The number of cycles that make a point, and of those in the newest point.
        self._cycles = 1
        self._counted = 0

    def points(self, most: int = MOST_POINTS) -> tuple[BalancePoint, ...]:
        """The oldest first; of more than ``most``, the less even ones of equal parts."""
        size = -(-len(self._points) // max(1, most))
        parts = (self._points[at : at + size] for at in range(0, len(self._points), size or 1))
        return tuple(reduce(_worse, part) for part in parts)

    def add(self, point: BalancePoint) -> None:
        """Note the next cycle."""
        if 0 < self._counted < self._cycles and self._points:
            self._points[-1] = _worse(self._points[-1], point)
            self._counted += 1
            return
        if len(self._points) >= self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=False)
            self._points = [_worse(first, second) for first, second in pairs]
            self._cycles *= 2
        self._points.append(point)
        self._counted = 1


def _worse(first: BalancePoint, second: BalancePoint) -> BalancePoint:
    return first if (first.usage or 0.0) > (second.usage or 0.0) else second
