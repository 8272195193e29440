"""Estimates of how large replies will be.

A reply beyond jute.maxbuffer closes the connection without an error. Payloads of one kind vary by
orders of magnitude, so an estimate by the largest one observed (as in Pulsar) would leave batches
of a handful of reads; the mean and the mean deviation of the kind bound a sum much more tightly.
Docs: pulsar-batching.
"""

from typing import Final

# Estimate for a node of a kind that no reply has had yet: 128 of them fill half of the default
# jute.maxbuffer.
_UNKNOWN_BYTES: Final = 4096.0
_WEIGHT: Final = 1 / 32
_MOST_KINDS: Final = 512
# Long enough to distinguish /admin/policies from /admin/local-policies, too short to include a
# tenant.
_PREFIX: Final = 9
# Stat, lengths and header of one result.
RESULT_BYTES: Final = 88


class Kind:
    """Nodes of similar size: their paths have the same first characters and the same depth."""

    __slots__ = ("mean_bytes", "spread_bytes")

    def __init__(self) -> None:
        self.mean_bytes = self.spread_bytes = _UNKNOWN_BYTES / 2

    @property
    def likely_bytes(self) -> float:
        """The size that one node is counted with.

        The sum of n such sizes exceeds the sum that is likely by about n mean deviations.
        """
        return self.mean_bytes + self.spread_bytes

    def observe(self, size_bytes: int) -> None:
        """Update the estimate with one reply; the last few dozen replies dominate it."""
        off = size_bytes - self.mean_bytes
        self.mean_bytes += off * _WEIGHT
        self.spread_bytes += ((off if off > 0 else -off) - self.spread_bytes) * _WEIGHT


class ReplySizes:
    """The size estimates by kind, bounded in number."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int], Kind] = {}
        self._others = Kind()

    def kind(self, path: str) -> Kind:
        """The kind of ``path``."""
        key = (path[1:_PREFIX], path.count("/"))
        found = self._kinds.get(key)
        if found is not None:
            return found
        if len(self._kinds) >= _MOST_KINDS:
            # All new paths share one kind, and estimates are worse.
            return self._others
        return self._kinds.setdefault(key, Kind())
