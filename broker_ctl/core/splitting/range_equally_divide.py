"""Cut the range in the middle, whatever lies in it (docs: pulsar-split-algorithms)."""

from broker_ctl.core.bundle import BundleRange
from broker_ctl.core.splitting.request import SplitRequest


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """The middle, rounded down; none where the range is too small."""
    return middle_of(request.range)


def middle_of(bundle_range: BundleRange) -> tuple[int, ...]:
    """The one boundary that halves a range."""
    if not bundle_range.can_split:
        return ()
    return (bundle_range.low + (bundle_range.high - bundle_range.low) // 2,)
