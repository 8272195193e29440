"""The load vector of a bundle: the load that a move takes from one broker to another."""

from dataclasses import dataclass
from typing import Final

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
