"""Cut so that no child has more traffic than a bundle may (docs: pulsar-split-algorithms).

The only algorithm that may cut into more than two: a bundle of three times the limit is one plan,
not three rounds.
"""

import math
from collections.abc import Sequence
from itertools import groupby

from broker_ctl.core.strategies.splitting.request import SplitRequest, TopicRate


def flow_or_qps_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Wherever one more topic would be too much for the child that is being filled.

    None where fewer than two topics have traffic, or where the bundle is above neither limit by
    more than ``flow_difference_ratio``. Topics of one and the same hash cannot be parted: their
    traffic is added up, where Pulsar keeps that of the last of them only.
    """
    rules = request.rules
    max_rate, max_bytes = _limit(rules.max_msg_rate), _limit(rules.max_bandwidth_bytes)
    topics = _by_position(request.rates)
    rate, flow = _total(topics)
    above = 1 + rules.flow_difference_ratio
    if len(topics) < 2 or (rate < max_rate * above and flow < max_bytes * above):
        return ()
    points: list[int] = []
    filled_rate = filled_bytes = 0.0
    for number, topic in enumerate(topics):
        filled_rate += topic.msg_rate
        filled_bytes += topic.throughput_bytes
        if number and (filled_rate > max_rate or filled_bytes > max_bytes):
            before = topics[number - 1].position
            points.append(before + (topic.position - before) // 2 + 1)
            filled_rate, filled_bytes = topic.msg_rate, topic.throughput_bytes
    return request.inside(tuple(points))


def _limit(value: float) -> float:
    return value if value > 0 else math.inf


def _by_position(rates: Sequence[TopicRate]) -> list[TopicRate]:
    """What has traffic, by ascending hash, one entry for each hash."""
    busy = [topic for topic in rates if topic.msg_rate > 0 or topic.throughput_bytes > 0]
    busy.sort(key=lambda topic: topic.position)
    return [
        TopicRate(position, *_total(list(same)))
        for position, same in groupby(busy, key=lambda topic: topic.position)
    ]


def _total(topics: Sequence[TopicRate]) -> tuple[float, float]:
    return (
        math.fsum(topic.msg_rate for topic in topics),
        math.fsum(topic.throughput_bytes for topic in topics),
    )
