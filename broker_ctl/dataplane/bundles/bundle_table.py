"""The bundles that a broker process has loaded, and their tokens: the rules without the serving.

Pure: the simulated data plane and the reference broker are both built on it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace, ring_hash
from broker_ctl.dataplane.bundles.tokens import TokenMap
from broker_ctl.errors import DataPlaneRefused, InvalidName


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
