"""What a split algorithm gets, whichever it is."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_ctl.core.bundle import BundleRange


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A bundle range that is to be cut.

    Attributes:
        range: the bundle's range.
        topic_hashes: ring hash of every topic in it, in any order.
        positions: where the caller wants it cut; only for ``specified_positions_divide``.
    """

    range: BundleRange
    topic_hashes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def inside(self, points: tuple[int, ...]) -> tuple[int, ...]:
        """Those of ``points`` that can be boundaries: strictly inside, sorted, once each."""
        low, high = self.range.low, self.range.high
        return tuple(sorted({point for point in points if low < point < high}))


# The boundaries; none where a split would be of no use, which is no error.
SplitAlgorithm = Callable[[SplitRequest], tuple[int, ...]]
