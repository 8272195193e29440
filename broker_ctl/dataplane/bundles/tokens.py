"""The highest fencing token received for every hash (I1b, I2).

This table alone protects a broker process from a former owner that has not yet noticed its loss of
ownership. The tokens outlive unloads, since a load of the former owner may arrive after them.
"""

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.names import RING_HIGH, RING_LOW
from broker_ctl.errors import DataPlaneFenced

if TYPE_CHECKING:
    from broker_ctl.core.model.names import Namespace


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
