"""Which resources of a broker count, and how much each broker has and uses of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import BrokerLoad, SystemUsage, UsageWeights

# One number for each of `Resources.active`.
Demand = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """Which resources count, and how much each broker has of them.

    Attributes:
        active: their places in `SystemUsage.resources`; none: nobody says how full it is, and
            bytes are compared instead.
        weights: of each of them.
    """

    active: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, view: ClusterView, weights: UsageWeights) -> "Resources":
        """Those with a weight that anybody has, where anybody uses any."""
        factors = _factors(weights)
        rows = [broker.load.usage.resources for broker in view.brokers.values()]
        active = tuple(
            place
            for place, factor in enumerate(factors)
            if factor > 0 and any(row[place].limit > 0 for row in rows)
        )
        if not any(row[place].percent > 0 for row in rows for place in active):
            active = ()
        return cls(active, tuple(factors[place] for place in active))

    @property
    def is_bytes(self) -> bool:
        """Whether bytes are compared."""
        return not self.active

    def capacities(self, view: ClusterView) -> Mapping[str, Demand]:
        """What each broker has of each; infinite where it does not say.

        Where no broker reports usage, a mean broker is assumed to be half full.
        """
        if self.is_bytes:
            total = math.fsum(each.expected.throughput_bytes for each in view.brokers.values())
            each_bytes = max(total, 1.0) / max(1, len(view.brokers)) * 2
            return dict.fromkeys(view.brokers, (each_bytes,))
        return {
            broker_id: tuple(
                broker.load.usage.resources[place].limit / weight or math.inf
                for place, weight in zip(self.active, self.weights, strict=True)
            )
            for broker_id, broker in view.brokers.items()
        }

    def unlisted(self, load: BrokerLoad) -> Demand:
        """What a broker uses for bundles that its report does not list."""
        if self.is_bytes:
            return (load.unlisted.throughput,)
        rest = load.unlisted.throughput
        if not rest:
            return (0.0,) * len(self.active)
        part = rest / load.total.throughput
        return tuple(part * used for used in self.used(load.usage))

    def used(self, usage: SystemUsage) -> Demand:
        """What a broker uses of each."""
        return tuple(usage.resources[place].usage for place in self.active)


def _factors(weights: UsageWeights) -> tuple[float, ...]:
    return (
        weights.cpu,
        weights.memory,
        weights.direct_memory,
        weights.bandwidth_in,
        weights.bandwidth_out,
    )
