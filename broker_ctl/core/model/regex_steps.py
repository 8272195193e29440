"""The steps that Python's matcher takes at most for a regular expression.

The matcher backtracks: it tries all ways to match one after another. For each part of the pattern,
this module counts the ways in which the matcher reaches each position of the text, as if every
character matched and the end never did: no text takes more steps. The sum over all parts is the
bound, so a long part behind many ways counts once per way.

One thing makes the bound lower: after the characters of a literal the matcher is only where that
literal is in the text, and two places of ``.example`` are at least eight characters apart.
"""

from itertools import accumulate
from typing import Final, NamedTuple, Self

from broker_ctl.core.model.regex_syntax import (
    Alternatives,
    Anchor,
    BackReference,
    Char,
    Look,
    Node,
    Repeat,
    Sequence,
)

# A step of a loop over a group takes as long as this number of others.
_LOOP_STEPS: Final = 4
# An operation of the counting itself takes as long as this number of steps.
_COUNTING_STEPS: Final = 4_000
# A longer literal is not much rarer in a text.
_MAX_RUN: Final = 32


class _Reached(NamedTuple):
    """Where the matcher may be before the next part.

    Attributes:
        ways: by position in the text, the ways to get there.
        spacing: in any one text, the positions reached are at least this far from each other.
        run: the literal characters right before.
    """

    ways: tuple[int, ...]
    spacing: int = 1
    run: str = ""

    def total(self) -> int:
        """All ways: of positions that are closer than the spacing, only one is reached."""
        return sum(self.ways) if self.spacing == 1 else sum(self._thinned())

    def after_char(self, literal: str) -> Self:
        """Return what is reached behind one more character."""
        ways = (0, *self.ways[:-1])
        run = (self.run + literal)[:_MAX_RUN] if literal else ""
        return self._replace(ways=ways, spacing=max(self.spacing, _period(run)), run=run)

    def after_chars(self, least: int, most: int | None) -> "_Reached":
        """Return what is reached behind a number of characters."""
        size = len(self.ways)
        if most is None or most >= size:
            # Every later position is reached, so each way may begin at the first of its block.
            sums = (*([0] * least), *accumulate(self._thinned()))[:size]
            return _Reached(sums)
        sums = (0, *accumulate(self.ways))
        ends = ((at - least + 1, at - most) for at in range(size))
        return _Reached(tuple(sums[max(0, to)] - sums[max(0, start)] for to, start in ends))

    def _thinned(self) -> tuple[int, ...]:
        """The ways, those of each block of ``spacing`` positions as one at its first position."""
        if self.spacing == 1:
            return self.ways
        thinned = [0] * len(self.ways)
        for at in range(0, len(self.ways), self.spacing):
            thinned[at] = max(self.ways[at : at + self.spacing])
        return tuple(thinned)


def takes_at_most(limit: int, pattern: Alternatives, text_length: int) -> bool:
    """Return whether a match of a text of this length takes at most this many steps."""
    steps = _Steps(limit)
    try:
        behind = steps.walk(pattern, _Reached((1, *([0] * text_length))))
        steps.spend(behind.total())
    except _TooManySteps:
        return False
    return True


class _TooManySteps(Exception):
    pass


class _Steps:
    """Adds up the steps of the parts.

    Raises:
        _TooManySteps: there are more than the limit.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, steps: int) -> None:
        """Count steps, and the counting itself: it takes time, too."""
        self._left -= steps + _COUNTING_STEPS
        if self._left < 0:
            raise _TooManySteps

    def walk(self, node: Node, before: _Reached) -> _Reached:
        """Count the steps of a part, and return what is reached behind it."""
        behind = before
        match node:
            case Char(literal):
                self.spend(before.total())
                behind = before.after_char(literal)
            case Anchor():
                self.spend(before.total())
            case BackReference():
                behind = self._chars(before, 0, None)
            case Sequence(parts):
                for part in parts:
                    behind = self.walk(part, behind)
            case Alternatives(branches):
                self.spend(before.total())
                ends = [self.walk(branch, before) for branch in branches]
                behind = ends[0] if len(ends) == 1 else _union(ends)
            case Look(part, is_behind):
                # What is behind begins anywhere before: at the start the matcher has most to do.
                nothing = (0,) * (len(before.ways) - 1)
                self.walk(part, _Reached((before.total(), *nothing)) if is_behind else before)
            case Repeat(Char(), least, most):
                behind = self._chars(before, least, most)
            case Repeat(part, least, most):
                behind = self._loop(part, before, least, most)
        return behind

    def _chars(self, before: _Reached, least: int, most: int | None) -> _Reached:
        self.spend(before.after_chars(1, most).total())
        return before.after_chars(least, most)

    def _loop(self, part: Node, before: _Reached, least: int, most: int | None) -> _Reached:
        # The matcher ends a loop whose part matched nothing.
        most = max(least, len(before.ways)) if most is None else most
        behind = [before] if least == 0 else []
        at = before
        for times in range(1, most + 1):
            self.spend(_LOOP_STEPS * at.total())
            at = self.walk(part, at)
            if not any(at.ways):
                break
            if times >= least:
                behind.append(at)
        return _union(behind) if behind else _Reached((0,) * len(before.ways))


def _union(reached: list[_Reached]) -> _Reached:
    return _Reached(tuple(map(sum, zip(*(each.ways for each in reached), strict=True))))


def _period(text: str) -> int:
    """The smallest distance between two places of a text that overlap; 1 for an empty one."""
    for distance in range(1, len(text)):
        if text.startswith(text[distance:]):
            return distance
    return max(1, len(text))
