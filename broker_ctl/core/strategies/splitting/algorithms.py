"""The split algorithms: from a bundle range to its boundaries (docs: pulsar-split-algorithms).

`traffic_equally_divide` is ours; the others are Pulsar's.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from broker_ctl.core.strategies.splitting.request import SplitRequest, TopicRate
from broker_ctl.errors import InvalidName


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """The middle, rounded down; none where the range is too small."""
    return request.range.middle


def topic_count_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """The point half way between the two middle topics; none below two topics.

    Half way is rounded up: rounded down, as Pulsar does, two adjacent hashes would both fall into
    the right child. Topics of one and the same hash cannot be parted.
    """
    hashes = sorted(request.topic_hashes)
    if len(hashes) < 2:
        return ()
    left, right = hashes[len(hashes) // 2 - 1], hashes[len(hashes) // 2]
    return request.inside((left + (right - left + 1) // 2,))


def specified_positions_divide(request: SplitRequest) -> tuple[int, ...]:
    """The given positions that lie strictly inside; none below two topics.

    Raises:
        InvalidName: no position was given at all.
    """
    if not request.positions:
        raise InvalidName(f"{request.range}: specified_positions_divide needs positions")
    if len(request.topic_hashes) < 2:
        return ()
    return request.inside(request.positions)


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


def traffic_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Between two topics by bytes/s, by msg/s where there are no bytes.

    None where all traffic lies at one hash: the other half would have none.
    """
    by_bytes = any(topic.throughput_bytes > 0 for topic in request.rates)
    traffic: dict[int, float] = {}
    for topic in sorted(request.rates, key=lambda topic: topic.position):
        value = topic.throughput_bytes if by_bytes else topic.msg_rate
        if value > 0:
            traffic[topic.position] = traffic.get(topic.position, 0.0) + value
    if len(traffic) < 2:
        return ()
    total = sum(traffic.values())
    gaps = zip(pairwise(traffic), accumulate(traffic.values()), strict=False)
    (before, after), _ = min(gaps, key=lambda gap: abs(2 * gap[1] - total))
    return request.inside((before + (after - before) // 2 + 1,))
