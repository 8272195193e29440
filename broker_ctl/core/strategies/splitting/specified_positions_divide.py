"""Cut where the caller says (docs: pulsar-split-algorithms)."""

from broker_ctl.core.strategies.splitting.request import SplitRequest
from broker_ctl.errors import InvalidName


def specified_positions_divide(request: SplitRequest) -> tuple[int, ...]:
    """The positions that lie strictly inside; none below two topics.

    Raises:
        InvalidName: no position was given at all.
    """
    if not request.positions:
        raise InvalidName(f"{request.range}: specified_positions_divide needs positions")
    if len(request.topic_hashes) < 2:
        return ()
    return request.inside(request.positions)
