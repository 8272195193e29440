"""Bundles of one namespace by where they lie: each lookup of a cold one asks what overlaps it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from broker_ctl.core.model.bundle import BundleRange

_T = TypeVar("_T")


class RangeIndex(Generic[_T]):
    """Values by range; those that overlap a range are found without looking at the others.

    Bundles that are held do not overlap each other, but nothing here relies on it: what begins
    further below than the widest range that ever was cannot reach up to another.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], _T] = {}
        self._in_order: list[tuple[int, int]] = []
        self._widest = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, span: BundleRange, value: _T) -> None:
        """Keep a value, in the place of the one before."""
        ends = span.low, span.high
        if ends not in self._values:
            self._in_order.insert(bisect_left(self._in_order, ends), ends)
            self._widest = max(self._widest, span.high - span.low)
        self._values[ends] = value

    def remove(self, span: BundleRange) -> None:
        """Forget a range, which is there."""
        ends = span.low, span.high
        del self._values[ends]
        del self._in_order[bisect_left(self._in_order, ends)]

    def overlapping(self, span: BundleRange) -> Iterator[_T]:
        """Of the same hashes, the lowest first."""
        first = bisect_right(self._in_order, (span.low - self._widest, 0))
        end = bisect_left(self._in_order, (span.high, 0))
        return (self._values[ends] for ends in self._in_order[first:end] if ends[1] > span.low)
