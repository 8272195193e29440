"""Bundle: a contiguous hash range of a namespace, the unit that is owned and moved.

Docs: pulsar-hash.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Namespace
from broker_ctl.errors import InvalidName

_RANGE = re.compile(r"0x([0-9a-fA-F]{8})_0x([0-9a-fA-F]{8})")


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """``[low, high)`` on the ring; the last range of a namespace also holds its upper end."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not RING_LOW <= self.low < self.high <= RING_HIGH:
            raise InvalidName(f"range {self}: the lower bound must be below the upper one")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0x%08x_0x%08x``.

        Raises:
            InvalidName: the text has another form, or the range is empty.
        """
        match = _RANGE.fullmatch(text)
        if match is None:
            raise InvalidName(f"{text!r}: a bundle range is 0x00000000_0x40000000")
        return cls(int(match[1], 16), int(match[2], 16))

    def __str__(self) -> str:
        return f"0x{self.low:08x}_0x{self.high:08x}"

    def __contains__(self, position: int) -> bool:
        return self.low <= position < self.high or position == self.high == RING_HIGH

    def overlaps(self, other: "BundleRange") -> bool:
        """Return whether the ranges share at least one hash."""
        return self.low < other.high and other.low < self.high

    @property
    def can_split(self) -> bool:
        """Return whether a boundary fits strictly inside the range."""
        return self.high - self.low > 1

    @property
    def middle(self) -> tuple[int, ...]:
        """Return the boundary that halves the range; none if the range is too small to be split."""
        return (self.low + (self.high - self.low) // 2,) if self.can_split else ()


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """A range of one namespace; its key is ``tenant/ns/range``."""

    namespace: Namespace
    range: BundleRange
    # Nearly every mapping of the cluster is keyed by bundles, so the hash is computed only once.
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.namespace, self.range)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Bundle"], tuple[Namespace, BundleRange]]:
        # String hashes differ between processes, so an unpickled bundle computes its hash again.
        return Bundle, (self.namespace, self.range)

    @classmethod
    def parse(cls, key: str) -> Self:
        """Read ``tenant/ns/0xLOW_0xHIGH``.

        Raises:
            InvalidName: the text has another form.
        """
        namespace, _, text = key.rpartition("/")
        return cls(Namespace.parse(namespace), BundleRange.parse(text))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"

    def overlaps(self, other: "Bundle") -> bool:
        """Return whether a topic could belong to both bundles."""
        return self.namespace == other.namespace and self.range.overlaps(other.range)

    def joined(self, right: "Bundle") -> "Bundle":
        """Return the bundle that replaces this one and ``right`` after a merge.

        Raises:
            InvalidName: ``right`` does not begin where this bundle ends.
        """
        if self.namespace != right.namespace or self.range.high != right.range.low:
            raise InvalidName(f"{right} does not begin where {self} ends")
        return Bundle(self.namespace, BundleRange(self.range.low, right.range.high))

    def cut(self, boundaries: tuple[int, ...]) -> tuple["Bundle", ...]:
        """Return the children that replace this bundle after a split at ``boundaries``.

        Raises:
            InvalidName: there are no boundaries, or one is not strictly inside the bundle.
        """
        low, high = self.range.low, self.range.high
        inside = sorted(set(boundaries))
        if not inside or not all(low < boundary < high for boundary in inside):
            raise InvalidName(f"{self}: boundaries must lie strictly inside the bundle")
        points = [low, *inside, high]
        return tuple(Bundle(self.namespace, BundleRange(a, b)) for a, b in pairwise(points))
