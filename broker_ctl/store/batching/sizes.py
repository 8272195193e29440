"""How large replies will be, as far as one can tell.

A reply beyond jute.maxbuffer closes the connection without an error. Payloads of one
kind vary by orders of magnitude, so the largest one seen (Pulsar's estimate) would cut batches to
a handful; the mean and the spread of the kind bound a sum much closer.
Docs: pulsar-batching.
"""

from typing import Final

# Of a node nothing of whose kind was seen: at most so many in half of the default jute.maxbuffer.
_UNKNOWN_BYTES: Final = 4096.0
_WEIGHT: Final = 1 / 32
_MOST_KINDS: Final = 512
# Tells /admin/policies from /admin/local-policies, and knows no tenant.
_PREFIX: Final = 9
# Stat, lengths and header of one result.
RESULT_BYTES: Final = 88


class Kind:
    """Nodes that are alike: the path begins with the same few letters, and is as deep."""

    __slots__ = ("mean_bytes", "spread_bytes")

    def __init__(self) -> None:
        self.mean_bytes = self.spread_bytes = _UNKNOWN_BYTES / 2

    @property
    def likely_bytes(self) -> float:
        """What one is counted as: of n together, about n spreads more than they come to."""
        return self.mean_bytes + self.spread_bytes

    def observe(self, size_bytes: int) -> None:
        """Learn from a reply: the last few dozens of them count."""
        off = size_bytes - self.mean_bytes
        self.mean_bytes += off * _WEIGHT
        self.spread_bytes += ((off if off > 0 else -off) - self.spread_bytes) * _WEIGHT


class ReplySizes:
    """What is known of each kind, bounded."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int], Kind] = {}

    def kind(self, path: str) -> Kind:
        """The kind of ``path``."""
        key = (path[1:_PREFIX], path.count("/"))
        found = self._kinds.get(key)
        if found is None:
            # Beyond the bound everything new is of one kind, and estimates are worse.
            key = key if len(self._kinds) < _MOST_KINDS else ("", 0)
            found = self._kinds.setdefault(key, Kind())
        return found
