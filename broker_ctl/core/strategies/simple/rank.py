"""Rank of a broker: how full it is, and how much more it could hold (docs: pulsar-simple-manager).

The rank uses the measured usage or the sum of the bundles' quotas, whichever is larger. Each bundle
that was promised to the broker and is not yet in its report adds the default quota.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import ResourceQuota, ResourceUsage
from broker_ctl.core.strategies.simple.quota import Factors, QuotaBook, times

# Brokers whose usage differs by less are equal in that resource; then the next one is compared.
_POINTS: Final = 5.0
_FULL_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One broker; percents are of a resource's limit, and never above 100.

    Attributes:
        load_percent: the highest of the resources.
        msg_rate: expected msg/s of all bundles that it owns or was promised.
        capacity: number of bundles of the default quota that it could hold when empty.
        is_idle: whether it owns no bundles and none are promised to it.
    """

    broker_id: str
    load_percent: float
    cpu_percent: float
    memory_percent: float
    bandwidth_in_percent: float
    bandwidth_out_percent: float
    msg_rate: float
    capacity: float
    is_idle: bool

    @property
    def free_ratio(self) -> float:
        """Free fraction of the broker's capacity; 1.0 for an empty broker."""
        return 1 - self.load_percent / _FULL_PERCENT

    def is_before(self, other: "Rank") -> bool:
        """Return whether it is emptier by more than 5 points in total, or else in one resource."""
        pairs = (
            (self.load_percent, other.load_percent),
            (self.memory_percent, other.memory_percent),
            (self.cpu_percent, other.cpu_percent),
            (self.bandwidth_in_percent, other.bandwidth_in_percent),
            (self.bandwidth_out_percent, other.bandwidth_out_percent),
        )
        for mine, others in pairs:
            if abs(mine - others) > _POINTS:
                return mine < others
        return self.load_percent < other.load_percent


def rank(broker: BrokerView, book: QuotaBook) -> Rank:
    """Return the rank of a broker."""
    usage, allocated = broker.load.usage, book.of(broker.load)
    promised_count = max(0, len(broker.owned) - broker.load.bundle_count)
    promised = times(book.default, promised_count)
    needs, promises = _needs(allocated, book.factors), _needs(promised, book.factors)
    resources = (usage.cpu, usage.memory, usage.bandwidth_in, usage.bandwidth_out)
    cpu, memory, bandwidth_in, bandwidth_out = map(_percent, resources, needs, promises)
    direct_memory = min(_FULL_PERCENT, usage.direct_memory.percent)
    return Rank(
        broker.broker_id,
        max(cpu, memory, direct_memory, bandwidth_in, bandwidth_out),
        cpu,
        memory,
        bandwidth_in,
        bandwidth_out,
        msg_rate=allocated.msg_rate + promised.msg_rate,
        capacity=_capacity(resources, _needs(book.default, book.factors)),
        is_idle=not broker.owned,
    )


def _needs(quota: ResourceQuota, factors: Factors) -> tuple[float, float, float, float]:
    """CPU in percent of one core, memory in MiB, bandwidth in Kbit/s: the units of a report."""
    return (
        quota.msg_rate * factors.cpu_per_msg,
        quota.memory_mib,
        quota.bandwidth_in_bytes * 8 / 1000,
        quota.bandwidth_out_bytes * 8 / 1000,
    )


def _percent(resource: ResourceUsage, need: float, promised: float) -> float:
    expected = ResourceUsage(max(resource.usage, need) + promised, resource.limit)
    return min(_FULL_PERCENT, expected.percent)


def _capacity(limits: Iterable[ResourceUsage], needs: tuple[float, ...]) -> float:
    """The scarcest resource decides; one of unknown limit is ignored."""
    return min(
        (
            resource.limit / need
            for resource, need in zip(limits, needs, strict=True)
            if resource.limit > 0 and need > 0
        ),
        default=0.0,
    )
