"""How unevenly usage is spread over the brokers, and whether that calls for a transfer.

Docs: pulsar-shedders.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, sqrt

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.rules.shedding import TransferRules


@dataclass(frozen=True, slots=True)
class Spread:
    """Loads of at least one broker: usage as the strategy judges it, and bytes/s."""

    usage: Mapping[str, float]
    throughput_bytes: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Of usage."""
        return fsum(self.usage.values()) / len(self.usage)

    @property
    def std(self) -> float:
        """Population standard deviation of usage."""
        mean = self.mean
        return sqrt(fsum((load - mean) ** 2 for load in self.usage.values()) / len(self.usage))

    @property
    def ranked(self) -> list[str]:
        """Coolest first."""
        return sorted(self.usage, key=lambda broker_id: (self.usage[broker_id], broker_id))

    def after(
        self, source: str, destination: str, usage_ratio: float, throughput_bytes: float
    ) -> "Spread":
        """Return the loads after a move of that amount from one broker to another."""
        change = Counter({source: -1, destination: 1})
        return Spread(
            {each: load + change[each] * usage_ratio for each, load in self.usage.items()},
            {
                each: load + change[each] * throughput_bytes
                for each, load in self.throughput_bytes.items()
            },
        )

    def trigger(
        self, source: str, destination: str, rules: SheddingRules
    ) -> tuple[Reason, str] | None:
        """Return why load should move from hottest to coolest; None: the cluster is even."""
        limits, mean, std = rules.transfer, self.mean, self.std
        if std > limits.target_std:
            text = f"usage deviates by {std:.1%} from its mean of {mean:.1%}"
            return Reason.OVERLOADED, f"{text}, {limits.target_std:.1%} are tolerated"
        if self._is_underloaded(source, destination, limits):
            usage = self.usage[destination]
            text = f"{destination} at {usage:.1%} carries next to nothing of the mean of {mean:.1%}"
            return Reason.UNDERLOADED_RECEIVER, text
        usage, limit = self.usage[source], rules.overload.overloaded_ratio
        if usage > limit and usage > mean + limits.target_std:
            text = f"{source} at {usage:.1%} is above {limit:.1%} and far above the mean"
            return Reason.OVERLOADED, f"{text} of {mean:.1%}"
        return None

    def _is_underloaded(self, source: str, destination: str, limits: TransferRules) -> bool:
        part = min(0.5, max(0.0, limits.target_std / 2))
        return (
            self.usage[destination] < self.mean * part
            or self.throughput_bytes[destination] < self.throughput_bytes[source] * part
        )
