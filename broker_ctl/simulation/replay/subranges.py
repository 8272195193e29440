"""Maps a current bundle to parts of the bundles that a scenario begins with.

A scenario defines the traffic of its initial bundles. A split divides the traffic by topics, and a
merge adds it up; each resulting bundle refers to its parts of the initial series.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.namespace import Ring
from broker_ctl.simulation.model.scenario import TopicShares


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one of the first bundles.

    Attributes:
        origin: which one, by its place in ``Traffic.bundles``.
        weight: its part of that bundle's traffic.
        topics: the topics that lie in it.
    """

    origin: int
    weight: float
    topics: TopicShares

    def within(self, span: BundleRange) -> "Piece":
        """What of it lies in ``span``; all of it where it has no topics."""
        inside = [
            (position, share)
            for position, share in zip(self.topics.positions, self.topics.shares, strict=True)
            if position in span
        ]
        if len(inside) == len(self.topics.positions):
            return self
        topics = TopicShares(tuple(p for p, _ in inside), tuple(s for _, s in inside))
        return Piece(self.origin, math.fsum(topics.shares), topics)


@dataclass(frozen=True, slots=True)
class Subrange:
    """A bundle with what lies in it.

    Attributes:
        text: of the bundle, as it stands in reports.
        topics: how many.
    """

    bundle: Bundle
    text: str
    pieces: tuple[Piece, ...]
    topics: int

    @classmethod
    def of(cls, bundle: Bundle, pieces: tuple[Piece, ...]) -> Self:
        """The parcel of these pieces, by their place on the ring."""
        topics = sum(len(piece.topics.positions) for piece in pieces)
        return cls(bundle, str(bundle), pieces, topics)

    def cut(self, boundaries: tuple[int, ...]) -> list["Subrange"]:
        """Its children; what has traffic and no topics goes to the first.

        Raises:
            InvalidName: no boundary, or one that is not strictly inside.
        """
        bare = [piece for piece in self.pieces if not piece.topics.positions]
        children: list[Subrange] = []
        for child in self.bundle.cut(boundaries):
            parts = [piece.within(child.range) for piece in self.pieces]
            held = [part for part in parts if part.topics.positions]
            children.append(Subrange.of(child, (*bare, *held)))
            bare = []
        return children

    def joined(self, right: "Subrange") -> "Subrange":
        """What comes of the two when they are merged."""
        return Subrange.of(self.bundle.joined(right.bundle), (*self.pieces, *right.pieces))


def evenly_divided(subranges: Sequence[Subrange], count: int) -> list[tuple[Subrange, int]]:
    """Each namespace as ``count`` even bundles; of each the place of the one in which it begins.

    Args:
        subranges: the bundles of whole namespaces, in the order of the ring.
        count: as a cluster makes them that has this number for new namespaces.
    """
    found: list[tuple[Subrange, int]] = []
    for namespace in dict.fromkeys(parcel.bundle.namespace for parcel in subranges):
        places = [n for n, each in enumerate(subranges) if each.bundle.namespace == namespace]
        for bundle in Ring.even(namespace, count).bundles:
            span = bundle.range
            near = [place for place in places if subranges[place].bundle.overlaps(bundle)]
            pieces = [
                part
                for place in near
                for piece in subranges[place].pieces
                # What has no topics lies where its bundle begins.
                if (part := piece.within(span)).topics.positions
                or (not piece.topics.positions and subranges[place].bundle.range.low in span)
            ]
            found.append((Subrange.of(bundle, tuple(pieces)), near[0]))
    return found
