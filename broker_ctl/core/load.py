"""Usage, bundle and broker load, short and long averages.

Reference: pulsar-load-management 3.1, 3.6, 3.8. Units: cpu in percent of one core, memory in MiB,
bandwidth in Kbit/s, throughput in bytes/s, rates in msg/s, times in ms since 1970.
"""

from dataclasses import dataclass, field
from typing import Final, Self

SHORT_SAMPLES: Final = 10
LONG_SAMPLES: Final = 1000
DEFAULT_MSG_RATE: Final = 50.0
DEFAULT_THROUGHPUT: Final = 50_000.0


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """One resource: what is used of what there is, in the same unit."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def percent(self) -> float:
        """0 where the limit is unknown, as in Pulsar."""
        return 0.0 if self.limit <= 0 else self.usage / self.limit * 100


@dataclass(frozen=True, slots=True)
class SystemUsage:
    """What a broker uses of its machine."""

    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    direct_memory: ResourceUsage = ResourceUsage()
    bandwidth_in: ResourceUsage = ResourceUsage()
    bandwidth_out: ResourceUsage = ResourceUsage()


@dataclass(frozen=True, slots=True)
class UsageWeights:
    """Weight of each resource in `max_usage`; the defaults are those of Pulsar 4.0."""

    cpu: float = 1.0
    memory: float = 0.0
    direct_memory: float = 0.0
    bandwidth_in: float = 1.0
    bandwidth_out: float = 1.0


def max_usage(usage: SystemUsage, weights: UsageWeights | None = None) -> float:
    """The broker's load as a fraction: the largest weighted resource percentage over 100."""
    w = weights or UsageWeights()
    return (
        max(
            usage.cpu.percent * w.cpu,
            usage.memory.percent * w.memory,
            usage.direct_memory.percent * w.direct_memory,
            usage.bandwidth_in.percent * w.bandwidth_in,
            usage.bandwidth_out.percent * w.bandwidth_out,
        )
        / 100
    )


@dataclass(frozen=True, slots=True)
class BundleStats:
    """Current traffic of one bundle on its owner (Pulsar's NamespaceBundleStats)."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0
    producers: int = 0
    consumers: int = 0
    cache_size_bytes: int = 0

    def __add__(self, other: "BundleStats") -> "BundleStats":
        return BundleStats(
            self.msg_rate_in + other.msg_rate_in,
            self.msg_rate_out + other.msg_rate_out,
            self.msg_throughput_in + other.msg_throughput_in,
            self.msg_throughput_out + other.msg_throughput_out,
            self.topics + other.topics,
            self.producers + other.producers,
            self.consumers + other.consumers,
            self.cache_size_bytes + other.cache_size_bytes,
        )

    @property
    def msg_rate(self) -> float:
        """Messages a second, in and out."""
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        """Bytes a second, in and out."""
        return self.msg_throughput_in + self.msg_throughput_out

    @property
    def sessions(self) -> int:
        """Producers and consumers."""
        return self.producers + self.consumers


@dataclass(frozen=True, slots=True)
class TimeAverage:
    """Running mean over at most ``max_samples`` (Pulsar's TimeAverageMessageData)."""

    max_samples: int
    samples: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0

    def fold(self, stats: BundleStats) -> "TimeAverage":
        """Take one more sample: ``n = min(n + 1, max)``, ``v = ((n - 1) v + sample) / n``."""
        n = min(self.samples + 1, self.max_samples)
        keep, take = (n - 1) / n, 1 / n
        return TimeAverage(
            self.max_samples,
            n,
            self.msg_rate_in * keep + stats.msg_rate_in * take,
            self.msg_rate_out * keep + stats.msg_rate_out * take,
            self.msg_throughput_in * keep + stats.msg_throughput_in * take,
            self.msg_throughput_out * keep + stats.msg_throughput_out * take,
        )

    @property
    def msg_rate(self) -> float:
        """Messages a second, in and out."""
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        """Bytes a second, in and out."""
        return self.msg_throughput_in + self.msg_throughput_out


@dataclass(frozen=True, slots=True)
class BundleLoad:
    """Short and long average of one bundle (Pulsar's BundleData)."""

    short: TimeAverage
    long: TimeAverage
    topics: int = 0

    @classmethod
    def unseen(cls) -> Self:
        """A bundle that nobody has measured: defaults that the first sample replaces."""
        rate, bytes_s = DEFAULT_MSG_RATE, DEFAULT_THROUGHPUT
        return cls(
            TimeAverage(SHORT_SAMPLES, 0, rate, rate, bytes_s, bytes_s),
            TimeAverage(LONG_SAMPLES, 0, rate, rate, bytes_s, bytes_s),
        )

    def fold(self, stats: BundleStats) -> "BundleLoad":
        """Take one more sample into both averages."""
        return BundleLoad(self.short.fold(stats), self.long.fold(stats), stats.topics)


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker says of itself at ``updated_ms`` (Pulsar's LocalBrokerData).

    ``bundles`` is keyed by the bundle's text, ``tenant/ns/range``.
    """

    broker_id: str
    usage: SystemUsage = SystemUsage()
    bundles: dict[str, BundleStats] = field(default_factory=dict)
    updated_ms: int = 0
    started_ms: int = 0
    version: str = ""

    @property
    def total(self) -> BundleStats:
        """Sum over the bundles."""
        return sum(self.bundles.values(), BundleStats())
