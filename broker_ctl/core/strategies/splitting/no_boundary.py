"""Explains to an operator why a split algorithm finds no boundary."""

from broker_ctl.core.strategies.splitting.algorithms import (
    range_equally_divide,
    specified_positions_divide,
)
from broker_ctl.core.strategies.splitting.catalog import BY_TRAFFIC
from broker_ctl.core.strategies.splitting.request import SplitAlgorithm, SplitRequest


def explain_no_boundary(algorithm: SplitAlgorithm, request: SplitRequest) -> str:
    """The reason why the algorithm has no boundaries for a request."""
    if algorithm is range_equally_divide:
        return "its range is a single hash"
    busy = [topic for topic in request.rates if topic.msg_rate > 0 or topic.throughput_bytes > 0]
    hashes = [topic.position for topic in busy] if algorithm in BY_TRAFFIC else request.topic_hashes
    what = "topics with traffic" if algorithm in BY_TRAFFIC else "topics loaded"
    if len(hashes) < 2:
        return f"a split needs two {what}, and it has {len(hashes)}"
    if len(set(hashes)) < 2:
        return f"its {len(hashes)} {what} have one and the same hash"
    if algorithm is specified_positions_divide:
        return "no position lies inside its range"
    return f"it is above no limit of a bundle, with {len(hashes)} {what}"
