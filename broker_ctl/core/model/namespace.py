"""The ring of one namespace: its ordered boundaries (docs: pulsar-hash)."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Self

from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Namespace, Topic
from broker_ctl.errors import BundleGone, InvalidName

MAX_BUNDLES = 1 << 32


@dataclass(frozen=True)
class Ring:
    """Boundaries ``b0 < ... < bN`` from 0x00000000 to 0xffffffff: N bundles.

    ``version`` is the data version of the local-policies node that the ring was read from. Every
    acquisition checks it, so that no broker acquires the parent of a split with a stale ring (I5).
    """

    namespace: Namespace
    boundaries: tuple[int, ...]
    version: int
    # Cache of bundles by the index of their upper end, filled on demand: each bundle answers
    # thousands of lookups, but a large ring has many bundles that are never looked up.
    _found: dict[int, Bundle] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        points = self.boundaries
        grows = all(a < b for a, b in pairwise(points))
        if len(points) < 2 or points[0] != RING_LOW or points[-1] != RING_HIGH or not grows:
            raise InvalidName(
                f"{self.namespace}: boundaries must grow from 0x00000000 to 0xffffffff",
            )

    @classmethod
    def even(cls, namespace: Namespace, bundles: int, version: int = 0) -> Self:
        """Return a ring of ``bundles`` equal ranges.

        Raises:
            InvalidName: the number is not within 1 to 2^32 - 1.
        """
        if not 0 < bundles < MAX_BUNDLES:
            raise InvalidName(f"number of bundles {bundles}: 1 to {MAX_BUNDLES - 1}")
        segment = (RING_HIGH + 1) // bundles
        return cls(namespace, (*(i * segment for i in range(bundles)), RING_HIGH), version)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """All bundles, in ascending order of their ranges."""
        points = self.boundaries
        return tuple(Bundle(self.namespace, BundleRange(a, b)) for a, b in pairwise(points))

    def find(self, position: int) -> Bundle:
        """Return the bundle of a hash; 0xffffffff, at which Pulsar fails, is in the last one."""
        points = self.boundaries
        index = min(bisect_right(points, position), len(points) - 1)
        found = self._found.get(index)
        if found is None:
            span = BundleRange(points[index - 1], points[index])
            found = self._found[index] = Bundle(self.namespace, span)
        return found

    def bundle_of(self, topic: Topic) -> Bundle:
        """Return the bundle of a topic."""
        return self.find(topic.ring_hash)

    def __contains__(self, bundle: Bundle) -> bool:
        low, high = bundle.range.low, bundle.range.high
        index = bisect_right(self.boundaries, low)
        if self.boundaries[index - 1 : index + 1] != (low, high):
            return False
        # To compare what is nearly always the same object takes longer than all else here.
        return bundle.namespace is self.namespace or bundle.namespace == self.namespace

    def split(self, bundle: Bundle, boundaries: tuple[int, ...]) -> Self:
        """Return the ring after a split; it keeps the version for the compare-and-set.

        Raises:
            BundleGone: ``bundle`` is not in the ring.
            InvalidName: a boundary is not strictly inside ``bundle``.
        """
        if bundle not in self:
            raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        bundle.cut(boundaries)
        points = tuple(sorted({*self.boundaries, *boundaries}))
        return type(self)(self.namespace, points, self.version)

    def merge(self, left: Bundle, right: Bundle) -> Self:
        """Return the ring after a merge; it keeps the version for the compare-and-set.

        Raises:
            BundleGone: one of the bundles is not in the ring.
            InvalidName: the bundles are not adjacent.
        """
        for bundle in (left, right):
            if bundle not in self:
                raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        if left.range.high != right.range.low:
            raise InvalidName(f"{left} and {right} do not touch")
        points = tuple(point for point in self.boundaries if point != left.range.high)
        return type(self)(self.namespace, points, self.version)

    def around(self, owned: Iterable[Bundle]) -> Self:
        """Return the ring with each of these bundles, which do not overlap, as one of its own.

        It keeps the version, and its other boundaries where they are in none of them.
        """
        ranges = [bundle.range for bundle in owned]
        bounds = {point for span in ranges for point in (span.low, span.high)}
        others = (p for p in self.boundaries if not any(s.low < p < s.high for s in ranges))
        return type(self)(self.namespace, tuple(sorted({*others, *bounds})), self.version)
