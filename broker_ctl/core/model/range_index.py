"""Index of a namespace's bundles by range, to find those that overlap a bundle to be acquired."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from broker_ctl.core.model.bundle import BundleRange

_T = TypeVar("_T")


class RangeIndex(Generic[_T]):
    """Values by range; finds those that overlap a given range without scanning all of them.

    Ranges may overlap each other. A range whose start is further below the given one than the
    widest range ever stored cannot overlap it, so the search begins there.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], _T] = {}
        self._in_order: list[tuple[int, int]] = []
        self._widest = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, span: BundleRange, value: _T) -> None:
        """Store the value of a range; replaces an earlier value of the same range."""
        ends = span.low, span.high
        if ends not in self._values:
            self._in_order.insert(bisect_left(self._in_order, ends), ends)
            self._widest = max(self._widest, span.high - span.low)
        self._values[ends] = value

    def remove(self, span: BundleRange) -> None:
        """Remove a range, which must be present."""
        ends = span.low, span.high
        del self._values[ends]
        del self._in_order[bisect_left(self._in_order, ends)]

    def overlapping(self, span: BundleRange) -> Iterator[_T]:
        """Return the values of all ranges that overlap ``span``, in ascending order."""
        first = bisect_right(self._in_order, (span.low - self._widest, 0))
        end = bisect_left(self._in_order, (span.high, 0))
        return (self._values[ends] for ends in self._in_order[first:end] if ends[1] > span.low)
