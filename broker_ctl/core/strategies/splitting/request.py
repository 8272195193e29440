"""The input of every split algorithm."""

from collections.abc import Callable
from dataclasses import dataclass, field

from broker_ctl.core.model.bundle import BundleRange
from broker_ctl.core.rules.rules import SplitRules


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
