"""Usage, the load of bundles and brokers, averages, and the load vector of a move."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

# Usage, bundle and broker load, short and long averages.
#
# Docs: pulsar-load-data, pulsar-report-rules. Units: cpu in percent of one core, memory in
# MiB, bandwidth in Kbit/s, throughput in bytes/s, rates in msg/s, times in ms since 1970.


SHORT_SAMPLES: Final = 10
LONG_SAMPLES: Final = 1000
DEFAULT_MSG_RATE: Final = 50.0
DEFAULT_THROUGHPUT: Final = 50_000.0


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Usage and limit of one resource, in the same unit."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def percent(self) -> float:
        """Usage in percent of the limit; 0 if the limit is unknown, as in Pulsar."""
        return 0.0 if self.limit <= 0 else self.usage / self.limit * 100


@dataclass(frozen=True, slots=True)
class SystemUsage:
    """A broker's usage of each resource of its machine."""

    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    direct_memory: ResourceUsage = ResourceUsage()
    bandwidth_in: ResourceUsage = ResourceUsage()
    bandwidth_out: ResourceUsage = ResourceUsage()

    @property
    def resources(self) -> tuple[ResourceUsage, ...]:
        """All resources, always in the order of the fields."""
        return self.cpu, self.memory, self.direct_memory, self.bandwidth_in, self.bandwidth_out

    @property
    def ratios(self) -> dict[str, float]:
        """Usage by resource, 1.0 is full; a resource without a limit has 0."""
        names = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
        return {
            name: resource.percent / 100
            for name, resource in zip(names, self.resources, strict=True)
        }


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


def size_ratios(
    usages: Mapping[str, SystemUsage], weights: UsageWeights | None = None
) -> Mapping[str, float]:
    """Return each broker's capacity relative to the mean, by the cluster's scarcest resource.

    All ratios are 1.0 if any broker does not report its limits. Pulsar assumes that brokers are
    equally large, and so overloads a small broker with what a large one sheds.
    """
    w = weights or UsageWeights()
    factors = (w.cpu, w.memory, w.direct_memory, w.bandwidth_in, w.bandwidth_out)
    columns = list(zip(*(usage.resources for usage in usages.values()), strict=True))
    fill = [
        sum(each.percent for each in column) * factor
        for column, factor in zip(columns, factors, strict=False)
    ]
    if not any(fill):
        return dict.fromkeys(usages, 1.0)
    scarcest = columns[fill.index(max(fill))]
    limits = {each.limit for each in scarcest}
    if len(limits) == 1 or min(limits) <= 0:
        return dict.fromkeys(usages, 1.0)
    mean = sum(each.limit for each in scarcest) / len(scarcest)
    return {broker_id: each.limit / mean for broker_id, each in zip(usages, scarcest, strict=True)}


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

    @classmethod
    def total_of(cls, lines: Iterable[Self]) -> Self:
        """Return the sum of many statistics without creating intermediate values."""
        rate_in = rate_out = bytes_in = bytes_out = 0.0
        topics = producers = consumers = cache = 0
        for line in lines:
            rate_in += line.msg_rate_in
            rate_out += line.msg_rate_out
            bytes_in += line.msg_throughput_in
            bytes_out += line.msg_throughput_out
            topics += line.topics
            producers += line.producers
            consumers += line.consumers
            cache += line.cache_size_bytes
        return cls(rate_in, rate_out, bytes_in, bytes_out, topics, producers, consumers, cache)


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """The expected resource needs of a bundle (Pulsar's ResourceQuota; docs: pulsar-load-data).

    Attributes:
        bandwidth_in_bytes, bandwidth_out_bytes: bytes/s.
        memory_mib: MiB.
        is_dynamic: whether the leader may replace the quota by measured values.
    """

    msg_rate_in: float = 40.0
    msg_rate_out: float = 120.0
    bandwidth_in_bytes: float = 100_000.0
    bandwidth_out_bytes: float = 300_000.0
    memory_mib: float = 80.0
    is_dynamic: bool = True

    @property
    def msg_rate(self) -> float:
        """Messages a second, in and out."""
        return self.msg_rate_in + self.msg_rate_out


# Of each amount of a quota: beyond this, adjacent integers share one double, and sums could become
# infinite.
MOST_QUOTA: Final = 2.0**53
# Pulsar's quota for bundles without their own; operators can set another default.
DEFAULT_QUOTA: Final = ResourceQuota()


def sample_weight(elapsed_s: float | None, sample_s: float) -> float:
    """Return the number of samples that one report is worth in an average.

    Pulsar gives each report the same weight: the average of a broker that reports often covers
    seconds, that of a quiet broker hours (docs: pulsar-report-rules). With ``sample_s`` above 0 the
    weight is proportional to the time since the previous report.

    Args:
        elapsed_s: seconds since the previous report; None: this is the first one.
        sample_s: seconds that are worth one sample; 0: every report is worth one.
    """
    return 1 if sample_s <= 0 or elapsed_s is None else max(0.0, elapsed_s) / sample_s


@dataclass(frozen=True, slots=True)
class TimeAverage:
    """Running mean over at most ``max_samples`` (Pulsar's TimeAverageMessageData).

    ``samples`` is fractional only if reports are weighted by time (see `sample_weight`).
    """

    max_samples: int
    samples: float = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0

    def fold(self, stats: BundleStats, weight: float = 1) -> "TimeAverage":
        """Add a sample: ``n = min(n + 1, max)``, ``v = ((n - 1) v + sample) / n``.

        A sample of weight w, which may be fractional, has the effect of w samples of the same
        value. So the average of a constant load does not depend on how often it is reported. The
        first sample always has weight 1.
        """
        n = min(self.samples + weight, self.max_samples) if self.samples else 1
        beyond = max(0.0, weight - (n - self.samples))
        keep = self.samples / n * (1 - 1 / self.max_samples) ** beyond if self.samples else 0.0
        take = 1 - keep
        return TimeAverage(
            self.max_samples,
            n,
            self.msg_rate_in * keep + stats.msg_rate_in * take,
            self.msg_rate_out * keep + stats.msg_rate_out * take,
            self.msg_throughput_in * keep + stats.msg_throughput_in * take,
            self.msg_throughput_out * keep + stats.msg_throughput_out * take,
        )

    def part(self, ratio: float) -> "TimeAverage":
        """Estimate the average of a part of the hashes; the first real sample replaces it."""
        return TimeAverage(
            self.max_samples,
            0,
            self.msg_rate_in * ratio,
            self.msg_rate_out * ratio,
            self.msg_throughput_in * ratio,
            self.msg_throughput_out * ratio,
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
        """Return the load of a bundle never measured: defaults that the first sample replaces."""
        rate, bytes_s = DEFAULT_MSG_RATE, DEFAULT_THROUGHPUT
        return cls(
            TimeAverage(SHORT_SAMPLES, 0, rate, rate, bytes_s, bytes_s),
            TimeAverage(LONG_SAMPLES, 0, rate, rate, bytes_s, bytes_s),
        )

    @classmethod
    def of_quota(cls, quota: ResourceQuota) -> Self:
        """Return the load of a bundle never measured that has a quota: the quota is its history."""
        values = (
            quota.msg_rate_in,
            quota.msg_rate_out,
            quota.bandwidth_in_bytes,
            quota.bandwidth_out_bytes,
        )
        return cls(
            TimeAverage(SHORT_SAMPLES, SHORT_SAMPLES, *values),
            TimeAverage(LONG_SAMPLES, LONG_SAMPLES, *values),
        )

    def fold(self, stats: BundleStats, weight: float = 1) -> "BundleLoad":
        """Add a sample to both averages; for its weight see `sample_weight`."""
        return BundleLoad(
            self.short.fold(stats, weight), self.long.fold(stats, weight), stats.topics
        )

    def part(self, ratio: float) -> "BundleLoad":
        """Estimate the load of a part of the hashes, assuming that load is spread evenly."""
        return BundleLoad(self.short.part(ratio), self.long.part(ratio), round(self.topics * ratio))


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker's own load report, created at ``updated_ms`` (Pulsar's LocalBrokerData).

    Attributes:
        bundles: statistics by bundle, ``tenant/ns/range``.
        unlisted: sum over the lightest bundles, which did not fit into the report.
        unlisted_bundles: number of those bundles.
    """

    broker_id: str
    usage: SystemUsage = SystemUsage()
    bundles: Mapping[str, BundleStats] = field(default_factory=dict)
    updated_ms: int = 0
    started_ms: int = 0
    version: str = ""
    unlisted: BundleStats = BundleStats()
    unlisted_bundles: int = 0
    # Each cycle asks several times for the sum over a thousand lines.
    _total: BundleStats | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def total(self) -> BundleStats:
        """Sum over all bundles of the broker, listed or not."""
        total = self._total
        if total is None:
            total = BundleStats.total_of((*self.bundles.values(), self.unlisted))
            object.__setattr__(self, "_total", total)
        return total

    @property
    def bundle_count(self) -> int:
        """Number of all bundles of the broker, listed or not."""
        return len(self.bundles) + self.unlisted_bundles


# The load vector of a bundle: the load that a move takes from one broker to another.


_UNITS: Final = ("B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s")


@dataclass(frozen=True, slots=True)
class LoadVector:
    """Load of one bundle, or the sum over the bundles of a broker.

    Attributes:
        usage_ratio: fraction of a broker's capacity, 1.0 is all of it.
        throughput_bytes: bytes/s in and out, short-term average.
        msg_rate: msg/s in and out, long-term average.
        topics: number of topics.
        size_ratio: size of the broker that ``usage_ratio`` refers to, relative to the mean broker.
            The usage of a bundle refers to a mean broker (1.0); on a broker of half the size the
            same bundle has twice that usage.
        bytes_in, bytes_out: bytes/s in each direction, short-term averages.
        sessions: producers and consumers, as last reported.
        cpu_cores: CPU, in cores.
    """

    usage_ratio: float = 0.0
    throughput_bytes: float = 0.0
    msg_rate: float = 0.0
    topics: int = 0
    size_ratio: float = 1.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    sessions: int = 0
    cpu_cores: float = 0.0

    def usage_on(self, size_ratio: float) -> float:
        """Return the usage that this load causes on a broker of that size (1.0: mean broker)."""
        return self.usage_ratio * self.size_ratio / size_ratio

    def __add__(self, other: "LoadVector") -> "LoadVector":
        return LoadVector(
            self.usage_ratio + other.usage_on(self.size_ratio),
            self.throughput_bytes + other.throughput_bytes,
            self.msg_rate + other.msg_rate,
            self.topics + other.topics,
            self.size_ratio,
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
            self.sessions + other.sessions,
            self.cpu_cores + other.cpu_cores,
        )

    def __sub__(self, other: "LoadVector") -> "LoadVector":
        # Rounding must not make a load negative.
        return LoadVector(
            max(0.0, self.usage_ratio - other.usage_on(self.size_ratio)),
            max(0.0, self.throughput_bytes - other.throughput_bytes),
            max(0.0, self.msg_rate - other.msg_rate),
            max(0, self.topics - other.topics),
            self.size_ratio,
            max(0.0, self.bytes_in - other.bytes_in),
            max(0.0, self.bytes_out - other.bytes_out),
            max(0, self.sessions - other.sessions),
            max(0.0, self.cpu_cores - other.cpu_cores),
        )

    def part(self, ratio: float) -> "LoadVector":
        """Estimate the load of a share of the hashes, assuming that load is spread evenly."""
        return LoadVector(
            self.usage_ratio * ratio,
            self.throughput_bytes * ratio,
            self.msg_rate * ratio,
            round(self.topics * ratio),
            self.size_ratio,
            self.bytes_in * ratio,
            self.bytes_out * ratio,
            round(self.sessions * ratio),
            self.cpu_cores * ratio,
        )


NO_LOAD: Final = LoadVector()


def throughput_text(throughput_bytes: float) -> str:
    """Return the throughput as text for people: ``12.5 MiB/s``."""
    value, unit = throughput_bytes, _UNITS[0]
    for larger in _UNITS[1:]:
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"
