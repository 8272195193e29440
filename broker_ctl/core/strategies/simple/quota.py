"""Quotas: the expected needs of each bundle, learnt slowly (docs: pulsar-simple-manager).

A quota follows a rise within half an hour and a fall within a day, so that a broker keeps room for
a load that comes back. A bundle's statistics have neither CPU nor memory: both are estimated from
its messages and from its topics and sessions, by factors learnt from the whole cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.model.load import (
    DEFAULT_QUOTA,
    BrokerLoad,
    BundleStats,
    ResourceQuota,
    SystemUsage,
)

_RISE_S: Final = 30 * 60.0
_FALL_S: Final = 24 * 3600.0
_OBJECTS_PER_GROUP: Final = 500
# With fewer of these the factors are not updated.
_LEAST_MSG_RATE: Final = 1000.0
_LEAST_GROUPS: Final = 30
_LEAST_BUNDLES: Final = 30


@dataclass(frozen=True, slots=True)
class Clamp:
    """Lower and upper bound of a value."""

    low: float
    high: float = float("inf")

    def smooth(self, old: float, sample: float, elapsed_s: float) -> float:
        """Return ``old`` after ``elapsed_s`` of exponential smoothing towards ``sample``."""
        sample = min(max(sample, self.low), self.high)
        window_s = _RISE_S if sample > old else _FALL_S
        part = min(1.0, max(0.0, elapsed_s) / window_s)
        return min(max(old + (sample - old) * part, self.low), self.high)


MSG_RATE: Final = Clamp(5.0)
BANDWIDTH_BYTES: Final = Clamp(10_000.0, 1_000_000.0)
MEMORY_MIB: Final = Clamp(2.0, 200.0)
CPU_PER_MSG: Final = Clamp(0.01, 0.1)
MEMORY_PER_GROUP_MIB: Final = Clamp(10.0, 50.0)


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors to estimate CPU and memory from traffic.

    Attributes:
        cpu_per_msg: percent of one core per msg/s.
        memory_per_group_mib: MiB per 500 topics, producers and consumers.
    """

    cpu_per_msg: float = 0.025
    memory_per_group_mib: float = 25.0

    def learn(
        self, total: BundleStats, usages: Iterable[SystemUsage], elapsed_s: float
    ) -> "Factors":
        """Update the factors after ``elapsed_s`` with this traffic and these usages."""
        held = tuple(usages)
        cpu, memory = self.cpu_per_msg, self.memory_per_group_mib
        if total.msg_rate > _LEAST_MSG_RATE:
            sample = sum(usage.cpu.usage for usage in held) / total.msg_rate
            cpu = CPU_PER_MSG.smooth(cpu, sample, elapsed_s)
        groups = object_groups(total)
        if groups > _LEAST_GROUPS:
            sample = sum(usage.memory.usage for usage in held) / groups
            memory = MEMORY_PER_GROUP_MIB.smooth(memory, sample, elapsed_s)
        return Factors(cpu, memory)


def object_groups(stats: BundleStats) -> float:
    """Return the number of topics, producers and consumers, in groups of 500."""
    return (stats.topics + stats.sessions) / _OBJECTS_PER_GROUP


def smooth_quota(
    old: ResourceQuota, stats: BundleStats, factors: Factors, elapsed_s: float
) -> ResourceQuota:
    """Return a bundle's quota after ``elapsed_s`` of this traffic; static quotas do not change."""
    if not old.is_dynamic:
        return old
    memory = object_groups(stats) * factors.memory_per_group_mib
    return ResourceQuota(
        MSG_RATE.smooth(old.msg_rate_in, stats.msg_rate_in, elapsed_s),
        MSG_RATE.smooth(old.msg_rate_out, stats.msg_rate_out, elapsed_s),
        BANDWIDTH_BYTES.smooth(old.bandwidth_in_bytes, stats.msg_throughput_in, elapsed_s),
        BANDWIDTH_BYTES.smooth(old.bandwidth_out_bytes, stats.msg_throughput_out, elapsed_s),
        MEMORY_MIB.smooth(old.memory_mib, memory, elapsed_s),
    )


def default_after(
    old: ResourceQuota,
    total: BundleStats,
    bundles: int,
    factors: Factors,
    elapsed_s: float,
) -> ResourceQuota:
    """Return the new default quota: the mean of all bundles, or the old one if they are few."""
    if bundles <= _LEAST_BUNDLES:
        return old
    mean = BundleStats(
        total.msg_rate_in / bundles,
        total.msg_rate_out / bundles,
        total.msg_throughput_in / bundles,
        total.msg_throughput_out / bundles,
        topics=round((total.topics + total.sessions) / bundles),
    )
    return smooth_quota(old, mean, factors, elapsed_s)


def quota_sum(quotas: Iterable[ResourceQuota]) -> ResourceQuota:
    """Return the sum of quotas."""
    rate_in = rate_out = bytes_in = bytes_out = memory = 0.0
    for quota in quotas:
        rate_in += quota.msg_rate_in
        rate_out += quota.msg_rate_out
        bytes_in += quota.bandwidth_in_bytes
        bytes_out += quota.bandwidth_out_bytes
        memory += quota.memory_mib
    return ResourceQuota(rate_in, rate_out, bytes_in, bytes_out, memory)


def times(quota: ResourceQuota, count: int) -> ResourceQuota:
    """Return a quota multiplied by ``count``."""
    return ResourceQuota(
        quota.msg_rate_in * count,
        quota.msg_rate_out * count,
        quota.bandwidth_in_bytes * count,
        quota.bandwidth_out_bytes * count,
        quota.memory_mib * count,
    )


@dataclass(frozen=True, slots=True)
class QuotaBook:
    """Expected needs of the brokers' bundles, for ranks.

    Attributes:
        allocated: by broker, the sum of the quotas of the bundles that it reports.
        default: quota of a bundle that is promised to a broker but not reported yet.
    """

    allocated: Mapping[str, ResourceQuota] = field(default_factory=dict)
    default: ResourceQuota = DEFAULT_QUOTA
    factors: Factors = Factors()

    def of(self, load: BrokerLoad) -> ResourceQuota:
        """Return the needs of the bundles in a report; for unknown brokers, by their number."""
        known = self.allocated.get(load.broker_id)
        return times(self.default, load.bundle_count) if known is None else known
