"""Split a range in the middle, whatever lies in it (docs: pulsar-split-algorithms)."""

from broker_ctl.core.strategies.splitting.request import SplitRequest


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """The middle, rounded down; none where the range is too small."""
    return request.range.middle
