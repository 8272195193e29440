"""The ring of one namespace: its ordered boundaries (docs: pulsar-hash)."""

from bisect import bisect_right
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

    ``version`` is the data version of the local-policies node that it was read from. Every
    acquisition checks it, so a stale ring can never take a parent again (I5).
    """

    namespace: Namespace
    boundaries: tuple[int, ...]
    version: int
    # Bundles that were asked for, by the place of their upper end: each is the answer to thousands
    # of lookups, and a ring may have more of them than lookups ask for.
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
        """A ring of ``bundles`` equal ranges.

        Raises:
            InvalidName: a number outside 1 to 2^32 - 1.
        """
        if not 0 < bundles < MAX_BUNDLES:
            raise InvalidName(f"number of bundles {bundles}: 1 to {MAX_BUNDLES - 1}")
        segment = (RING_HIGH + 1) // bundles
        return cls(namespace, (*(i * segment for i in range(bundles)), RING_HIGH), version)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """All bundles, by range."""
        points = self.boundaries
        return tuple(Bundle(self.namespace, BundleRange(a, b)) for a, b in pairwise(points))

    def find(self, position: int) -> Bundle:
        """The bundle that holds a hash. Pulsar runs past the end at 0xffffffff; we clamp."""
        points = self.boundaries
        index = min(bisect_right(points, position), len(points) - 1)
        found = self._found.get(index)
        if found is None:
            span = BundleRange(points[index - 1], points[index])
            found = self._found[index] = Bundle(self.namespace, span)
        return found

    def bundle_of(self, topic: Topic) -> Bundle:
        """The bundle that holds a topic."""
        return self.find(topic.ring_hash)

    def __contains__(self, bundle: Bundle) -> bool:
        low, high = bundle.range.low, bundle.range.high
        index = bisect_right(self.boundaries, low)
        is_range = self.boundaries[index - 1 : index + 1] == (low, high)
        return is_range and bundle.namespace == self.namespace

    def split(self, bundle: Bundle, boundaries: tuple[int, ...]) -> Self:
        """The ring with ``bundle`` replaced by its children; the version is kept for the CAS.

        Raises:
            BundleGone: ``bundle`` is not in the ring.
            InvalidName: a boundary is not strictly inside.
        """
        if bundle not in self:
            raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        bundle.cut(boundaries)
        points = tuple(sorted({*self.boundaries, *boundaries}))
        return type(self)(self.namespace, points, self.version)

    def merge(self, left: Bundle, right: Bundle) -> Self:
        """The ring with two adjacent bundles replaced by one; the version is kept for the CAS.

        Raises:
            BundleGone: one of them is not in the ring.
            InvalidName: they do not touch.
        """
        for bundle in (left, right):
            if bundle not in self:
                raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        if left.range.high != right.range.low:
            raise InvalidName(f"{left} and {right} do not touch")
        points = tuple(point for point in self.boundaries if point != left.range.high)
        return type(self)(self.namespace, points, self.version)
