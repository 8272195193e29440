"""Capacity of a simulated broker, and its usage under a load."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.load import BundleStats, ResourceUsage, SystemUsage

_CORE_MSG_RATE: Final = 50_000.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Messages and bytes a second, in and out together."""

    msg_rate: float = 50_000.0
    bytes_s: float = 50_000_000.0

    def times(self, factor: float) -> "Capacity":
        """The capacity times a factor."""
        return Capacity(self.msg_rate * factor, self.bytes_s * factor)

    def usage_by(self, total: BundleStats) -> SystemUsage:
        """Cpu as the larger share of the two capacities; a network link of the same size.

        One core takes 50,000 messages a second, so that a larger broker says that it is one.
        """
        share = max(total.msg_rate / self.msg_rate, total.throughput / self.bytes_s)
        link_kbit_s = self.bytes_s * 8 / 1000
        cores_percent = self.msg_rate / _CORE_MSG_RATE * 100
        return SystemUsage(
            cpu=ResourceUsage(min(share, 1.0) * cores_percent, cores_percent),
            bandwidth_in=ResourceUsage(total.msg_throughput_in * 8 / 1000, link_kbit_s),
            bandwidth_out=ResourceUsage(total.msg_throughput_out * 8 / 1000, link_kbit_s),
        )
