"""The highest fencing token seen for every hash (I1b, I2).

A broker process needs nothing but this to be safe against an owner that does not know yet that
it is one no more. It must outlive unloads: an old owner's load may arrive after them.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from broker_ctl.core.bundle import Bundle, BundleRange
from broker_ctl.core.hashing import RING_HIGH, RING_LOW
from broker_ctl.errors import DataPlaneFenced

if TYPE_CHECKING:
    from broker_ctl.core.names import Namespace


@dataclass(frozen=True, slots=True)
class RingTokens:
    """The highest token of every hash of one namespace, as a step function.

    ``tokens[i]`` holds from ``starts[i]`` up to the next start; neighbours differ, so the size
    is bounded by the number of boundaries that the namespace ever had.
    """

    starts: tuple[int, ...] = (RING_LOW,)
    tokens: tuple[int, ...] = (0,)

    def highest(self, span: BundleRange) -> int:
        """The highest token of any hash in ``span``; 0 where none was seen."""
        first = bisect_right(self.starts, span.low) - 1
        return max(self.tokens[first : bisect_left(self.starts, _end(span))])

    def raised(self, span: BundleRange, token: int) -> "RingTokens":
        """Every hash in ``span`` has seen ``token``; higher ones stay."""
        low, end = span.low, _end(span)
        first, last = bisect_right(self.starts, low) - 1, bisect_left(self.starts, end)
        tokens = self.tokens
        is_step = last == first + 1 and self.starts[first] == low
        is_step &= end > RING_HIGH or self.starts[last : last + 1] == (end,)
        if (
            is_step
            and token > max(tokens[first : last + 1])
            and token not in tokens[max(first - 1, 0) : first]
        ):
            # Renewed as it is, which is what becomes of most: no boundary comes or goes.
            return RingTokens(self.starts, (*tokens[:first], token, *tokens[last:]))
        known = list(zip(self.starts[first:last], self.tokens[first:last], strict=True))
        # Cut at both ends of the span and raise what lies between.
        raised = [(max(start, low), max(seen, token)) for start, seen in known]
        before = [known[0]] if known[0][0] < low else []
        is_cut = end <= RING_HIGH and self.starts[last : last + 1] != (end,)
        after = [(end, known[-1][1])] if is_cut else []
        # Neighbours on both sides may be equal now; what is farther off is as it was.
        left, right = max(first - 1, 0), last + 1
        steps = [
            *zip(self.starts[left:first], self.tokens[left:first], strict=True),
            *(*before, *raised, *after),
            *zip(self.starts[last:right], self.tokens[last:right], strict=True),
        ]
        joined = [next(group) for _, group in groupby(steps, key=itemgetter(1))]
        return RingTokens(
            (*self.starts[:left], *(start for start, _ in joined), *self.starts[right:]),
            (*self.tokens[:left], *(seen for _, seen in joined), *self.tokens[right:]),
        )

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
        return self._rings.get(bundle.namespace, RingTokens()).highest(bundle.range)

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
        ring = self._rings.get(bundle.namespace, RingTokens())
        self._rings[bundle.namespace] = ring.raised(bundle.range, token)

    def __len__(self) -> int:
        return sum(map(len, self._rings.values()))
