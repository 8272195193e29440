"""The bundles that a broker process has loaded, with their fencing tokens (I1b, I2)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from broker_ctl.core.model.names import (
    RING_HIGH,
    RING_LOW,
    Bundle,
    BundleRange,
    Namespace,
    ring_hash,
)
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, InvalidName

# The highest fencing token received for every hash (I1b, I2).
#
# This table alone protects a broker process from a former owner that has not yet noticed its loss
# of ownership. The tokens outlive unloads, since a load of the former owner may arrive after
# them.


class RingTokens:
    """The highest token of every hash of one namespace, as a step function.

    ``tokens[i]`` applies from ``starts[i]`` up to the next start. Neighbours differ, so the size is
    bounded by the number of bundle boundaries that the namespace ever had. The table is changed in
    place: after an expiry thousands of bundles are renewed one after another.
    """

    __slots__ = ("starts", "tokens")

    def __init__(self) -> None:
        self.starts = [RING_LOW]
        self.tokens = [0]

    def highest(self, span: BundleRange) -> int:
        """The highest token of any hash in ``span``; 0 where none was seen."""
        first = bisect_right(self.starts, span.low) - 1
        return max(self.tokens[first : bisect_left(self.starts, _end(span))])

    def raise_to(self, span: BundleRange, token: int) -> None:
        """Raise every hash in ``span`` to ``token``; higher tokens stay."""
        starts, tokens, low, end = self.starts, self.tokens, span.low, _end(span)
        first, last = bisect_right(starts, low) - 1, bisect_left(starts, end)
        # Cut at both ends of the span, and raise the steps between.
        steps = [(starts[first], tokens[first])] if starts[first] < low else []
        steps += [(max(starts[i], low), max(tokens[i], token)) for i in range(first, last)]
        if end <= RING_HIGH and starts[last : last + 1] != [end]:
            steps.append((end, tokens[last - 1]))
        # Steps may now equal their neighbours at both ends of the span: merge them.
        seen = tokens[first - 1] if first else None
        kept = []
        for start, value in steps:
            if value != seen:
                kept.append((start, value))
                seen = value
        if tokens[last : last + 1] == [seen]:
            last += 1
        starts[first:last] = [start for start, _ in kept]
        tokens[first:last] = [value for _, value in kept]

    def __len__(self) -> int:
        return len(self.starts)


def _end(span: BundleRange) -> int:
    """First position after the range; the last range of a ring is closed."""
    return RING_HIGH + 1 if span.high == RING_HIGH else span.high


class TokenMap:
    """The highest token of every hash, over all namespaces."""

    def __init__(self) -> None:
        self._rings: dict[Namespace, RingTokens] = {}

    def highest(self, bundle: Bundle) -> int:
        """The highest token of any hash of the bundle; 0 where none was seen."""
        ring = self._rings.get(bundle.namespace)
        return 0 if ring is None else ring.highest(bundle.range)

    def check(self, bundle: Bundle, token: int) -> None:
        """Refuse an old token.

        Raises:
            DataPlaneFenced: a hash of the bundle has seen a higher one.
        """
        highest = self.highest(bundle)
        if token < highest:
            raise DataPlaneFenced(f"{bundle}: token {token} is below {highest}")

    def admit(self, bundle: Bundle, token: int) -> None:
        """Check a token and remember it.

        Raises:
            DataPlaneFenced: a hash of the bundle has seen a higher one; nothing is remembered.
        """
        self.check(bundle, token)
        self.remember(bundle, token)

    def remember(self, bundle: Bundle, token: int) -> None:
        """Record the token, which was checked, for every hash of the bundle."""
        self._rings.setdefault(bundle.namespace, RingTokens()).raise_to(bundle.range, token)

    def __len__(self) -> int:
        return sum(map(len, self._rings.values()))


# The bundles that a broker process has loaded, and their tokens: the rules without the serving.
#
# Pure: the simulated data plane and the reference broker are both built on it.


@dataclass(slots=True)
class LoadedBundle:
    """One loaded bundle.

    Attributes:
        open: complete names of its open topics.
        is_closing: whether an unload is under way, so that no more topics are opened.
    """

    bundle: Bundle
    token: int
    open: set[str] = field(default_factory=set)
    is_closing: bool = False


class BundleTable:
    """Loaded bundles that never overlap, each under the highest token seen for all its hashes.

    Loading a bundle replaces everything that overlaps it, so both properties always hold (I1b). A
    call may be repeated with the same tokens.
    """

    def __init__(self) -> None:
        self._tokens = TokenMap()
        self._loaded: dict[Bundle, LoadedBundle] = {}
        # Where the loaded ranges of a namespace begin: sorted, and no two of them overlap.
        self._lows: dict[Namespace, list[int]] = {}
        self._in_order: dict[Namespace, list[LoadedBundle]] = {}

    def __iter__(self) -> Iterator[LoadedBundle]:
        return iter(tuple(self._loaded.values()))

    def get(self, bundle: Bundle) -> LoadedBundle:
        """A loaded bundle.

        Raises:
            DataPlaneRefused: it is not loaded.
        """
        if bundle not in self._loaded:
            raise DataPlaneRefused(f"{bundle} is not loaded")
        return self._loaded[bundle]

    def is_current(self, entry: LoadedBundle) -> bool:
        """Whether the entry was neither dropped nor replaced meanwhile."""
        return self._loaded.get(entry.bundle) is entry

    def overlapping(self, bundle: Bundle) -> tuple[LoadedBundle, ...]:
        """All loaded bundles that share a hash with ``bundle``."""
        lows = self._lows.get(bundle.namespace, [])
        first = max(bisect_right(lows, bundle.range.low) - 1, 0)
        near = self._in_order.get(bundle.namespace, [])[
            first : bisect_left(lows, bundle.range.high)
        ]
        return tuple(entry for entry in near if entry.bundle.overlaps(bundle))

    def load(self, bundle: Bundle, token: int) -> None:
        """Load a bundle; its topics stay open if it was loaded already.

        Raises:
            DataPlaneFenced: a hash has seen a higher token.
        """
        self._tokens.admit(bundle, token)
        known = self._loaded.get(bundle)
        self._replace(bundle, token, known.open if known else set())

    def renew(self, bundle: Bundle, token: int) -> None:
        """Raise the token of a loaded bundle.

        Raises:
            DataPlaneFenced: a hash has seen a higher token.
            DataPlaneRefused: the bundle is not loaded.
        """
        self._tokens.check(bundle, token)
        entry = self.get(bundle)
        self._tokens.remember(bundle, token)
        # The open topics are the same; an unload that was under way has ended.
        renewed = self._loaded[bundle] = LoadedBundle(bundle, token, set(entry.open))
        index = bisect_left(self._lows[bundle.namespace], bundle.range.low)
        self._in_order[bundle.namespace][index] = renewed

    def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Replace a bundle by its children, which inherit the open topics.

        Raises:
            InvalidName: the children are not the parent cut into pieces.
            DataPlaneFenced: a hash has seen a higher token; nothing changed.
            DataPlaneRefused: the parent is not loaded.
        """
        _check_tiling(parent, tuple(children))
        for child, token in children.items():
            self._tokens.check(child, token)
        if all(self._is_loaded(child, token) for child, token in children.items()):
            return  # done by an earlier call whose answer was lost
        still_open = self.get(parent).open
        for child, token in children.items():
            self._tokens.remember(child, token)
            self._replace(child, token, still_open)

    def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Replace two bundles by one, which inherits the open topics.

        Raises:
            InvalidName: the children are not the parent cut in two.
            DataPlaneFenced: a hash has seen a higher token.
            DataPlaneRefused: one of the children is not loaded.
        """
        _check_tiling(parent, children)
        self._tokens.check(parent, token)
        if self._is_loaded(parent, token):
            return  # done by an earlier call whose answer was lost
        left, right = (self.get(child) for child in children)
        self._tokens.remember(parent, token)
        self._replace(parent, token, left.open | right.open)

    def drop(self, bundle: Bundle) -> None:
        """Remove everything that overlaps ``bundle``; the tokens are kept."""
        for entry in self.overlapping(bundle):
            del self._loaded[entry.bundle]
            lows = self._lows[bundle.namespace]
            index = bisect_left(lows, entry.bundle.range.low)
            del lows[index], self._in_order[bundle.namespace][index]

    def _is_loaded(self, bundle: Bundle, token: int) -> bool:
        entry = self._loaded.get(bundle)
        return entry is not None and entry.token == token and not entry.is_closing

    def _replace(self, bundle: Bundle, token: int, still_open: set[str]) -> None:
        self.drop(bundle)
        kept = {topic for topic in still_open if ring_hash(topic) in bundle.range}
        entry = self._loaded[bundle] = LoadedBundle(bundle, token, kept)
        lows = self._lows.setdefault(bundle.namespace, [])
        index = bisect_left(lows, bundle.range.low)
        lows.insert(index, bundle.range.low)
        self._in_order.setdefault(bundle.namespace, []).insert(index, entry)


def _check_tiling(parent: Bundle, children: tuple[Bundle, ...]) -> None:
    pieces = tuple(sorted(children))
    if parent.cut(tuple(child.range.low for child in pieces[1:])) != pieces:
        raise InvalidName(f"{', '.join(map(str, pieces))} are not {parent} cut into pieces")
