"""The split algorithms: from a bundle range to its boundaries, and why there is none."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from typing import Final

from broker_ctl.core.model.counting import Catalog
from broker_ctl.core.model.names import BundleRange
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.errors import InvalidName

# The input of every split algorithm.


@dataclass(frozen=True, slots=True)
class TopicRate:
    """Traffic of one topic.

    Attributes:
        position: its ring hash.
        msg_rate: msg/s, in and out.
        throughput_bytes: bytes/s, in and out.
    """

    position: int
    msg_rate: float
    throughput_bytes: float


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A bundle range to split.

    Attributes:
        range: the bundle's range.
        topic_hashes: ring hash of every topic in it, in any order.
        positions: boundaries that the caller wants; only for ``specified_positions_divide``.
        rates: traffic of its topics, in any order; only for those in `catalog.BY_TRAFFIC`.
        rules: limits of one bundle; only for ``flow_or_qps_equally_divide``.
    """

    range: BundleRange
    topic_hashes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    rates: tuple[TopicRate, ...] = ()
    rules: SplitRules = field(default_factory=SplitRules)

    def inside(self, points: tuple[int, ...]) -> tuple[int, ...]:
        """Those of ``points`` that can be boundaries: strictly inside, sorted, once each."""
        low, high = self.range.low, self.range.high
        return tuple(sorted({point for point in points if low < point < high}))


# Returns the boundaries; empty if a split would be useless, which is not an error.
SplitAlgorithm = Callable[[SplitRequest], tuple[int, ...]]


# The split algorithms: from a bundle range to its boundaries (docs: pulsar-split-algorithms).
#
# `traffic_equally_divide` is ours; the others are Pulsar's.


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Split in the middle, rounded down; no boundary if the range is too small."""
    return request.range.middle


def topic_count_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Split half way between the two middle topics; no boundary for fewer than two topics.

    Half way is rounded up: if it were rounded down, as in Pulsar, two adjacent hashes would both
    belong to the right child. Topics with the same hash cannot be separated.
    """
    hashes = sorted(request.topic_hashes)
    if len(hashes) < 2:
        return ()
    left, right = hashes[len(hashes) // 2 - 1], hashes[len(hashes) // 2]
    return request.inside((left + (right - left + 1) // 2,))


def specified_positions_divide(request: SplitRequest) -> tuple[int, ...]:
    """Split at the given positions strictly inside; no boundary for fewer than two topics.

    Raises:
        InvalidName: no positions were given.
    """
    if not request.positions:
        raise InvalidName(f"{request.range}: specified_positions_divide needs positions")
    if len(request.topic_hashes) < 2:
        return ()
    return request.inside(request.positions)


def flow_or_qps_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Split wherever one more topic would make the current child exceed a limit.

    There is no boundary if fewer than two topics have traffic, or if the bundle does not exceed a
    limit by more than ``flow_difference_ratio``. Topics with the same hash cannot be separated, so
    their traffic is added; Pulsar counts only the last of them.
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
    """Return the topics with traffic in ascending order of hashes, one entry per hash."""
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
    """Split between two topics so that both halves have equal bytes/s, or msg/s without bytes.

    There is no boundary if all traffic is at one hash, because the other half would have none.
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


# Split algorithms by the names of supportedNamespaceBundleSplitAlgorithms.


# Algorithms that need the traffic of each topic.
BY_TRAFFIC: Final = frozenset({flow_or_qps_equally_divide, traffic_equally_divide})
SPLITTING: Final[Catalog[SplitAlgorithm]] = Catalog(
    "bundle split algorithm",
    {
        "range_equally_divide": range_equally_divide,
        "topic_count_equally_divide": topic_count_equally_divide,
        "specified_positions_divide": specified_positions_divide,
        "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
        "traffic_equally_divide": traffic_equally_divide,
    },
)


# Explains to an operator why a split algorithm finds no boundary.


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
