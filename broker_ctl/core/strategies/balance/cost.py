"""Cost of a byte on each broker: it distinguishes a slow broker from a busy one.

Usage alone does not show a broker's health: the fullest may just have the most to do. Usage over
traffic does, once three things are taken out of it:

- size. Usage is a part of the broker's *own* capacity, so a broker half as large shows twice the
  usage for the same byte. It is multiplied by the broker's size: the limit of its fullest resource
  over the median of what the brokers report as their limit of that resource. A cost is then a part
  of a median broker. Where a limit is unknown the broker is taken for a median one.
- the size of messages. A small one costs nearly as much as a large one, so that each counts for
  some bytes beside its own.
- time. Usage and traffic are of one and the same report; the averages of the view lag behind it,
  and would make a broker with a sudden load look slow.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import median
from typing import Final

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import SystemUsage, UsageWeights

# A broker of 50 MB/s is one of about 50,000 msg/s.
_MESSAGE_BYTES: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One broker by its last report.

    Attributes:
        usage_ratio: of its own capacity, 1.0 is full.
        throughput_bytes: bytes/s in and out.
        msg_rate: msg/s in and out.
        size_ratio: its capacity over that of a median broker.
        age_s: age of the report.
    """

    usage_ratio: float
    throughput_bytes: float
    msg_rate: float = 0.0
    size_ratio: float = 1.0
    age_s: float = 0.0

    @property
    def cost(self) -> float:
        """Part of a median broker for a byte/s; 0 where there is no traffic."""
        traffic = self.throughput_bytes + self.msg_rate * _MESSAGE_BYTES
        return self.usage_ratio * self.size_ratio / traffic if traffic > 0 else 0.0


def sample_costs(view: ClusterView, weights: UsageWeights | None = None) -> dict[str, Sample]:
    """The brokers that are there to stay, by id.

    Args:
        view: of this moment.
        weights: those by which ``BrokerView.usage_ratio`` was made (`core.load.max_usage`).
    """
    staying = {key: broker for key, broker in view.brokers.items() if not broker.is_draining}
    sizes = fullest_size_ratios(
        {key: broker.load.usage for key, broker in staying.items()}, weights
    )
    samples: dict[str, Sample] = {}
    for broker_id, broker in staying.items():
        total = broker.load.total
        samples[broker_id] = Sample(
            broker.usage_ratio,
            total.throughput,
            total.msg_rate,
            sizes[broker_id],
            broker.age_s,
        )
    return samples


def fullest_size_ratios(
    usages: Mapping[str, SystemUsage], weights: UsageWeights | None = None
) -> dict[str, float]:
    """Size of each broker in its own fullest resource, 1.0 is a median broker.

    Not `core.load.size_ratios`, which compares all brokers in one resource: a broker that is full
    in another, as one with a small network link, would look slow.
    """
    weighed: Sequence[float] = astuple(weights or UsageWeights())
    limits: dict[int, list[float]] = defaultdict(list)
    for usage in usages.values():
        for number, resource in enumerate(usage.resources):
            if resource.limit > 0:
                limits[number].append(resource.limit)
    medians = {number: median(values) for number, values in limits.items()}
    sizes: dict[str, float] = {}
    for broker_id, usage in usages.items():
        shares = [
            resource.percent * weight
            for resource, weight in zip(usage.resources, weighed, strict=True)
        ]
        # The first of equals: processors before memory before networks.
        fullest = shares.index(max(shares))
        limit = usage.resources[fullest].limit
        sizes[broker_id] = limit / medians[fullest] if limit > 0 else 1.0
    return sizes
