"""Regular expressions of operators, with a bound on the steps that a match may take."""

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, Self

from broker_ctl.errors import InvalidName

# The parts of a regular expression, as far as they matter for the work of a match.
#
# Python has checked the pattern before; here it is read a second time, because the tree that
# Python makes of it is private.


_MAX_DEPTH: Final = 20
_QUANTIFIER: Final = re.compile(r"(?:([*+?])|\{(\d+)\}|\{(\d*),(\d*)\})[?+]?")
_GROUP: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|>|P<\w+>|[aims]+:|[aims]+(?=\))))?")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:x.{2}|u.{4}|U.{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-7][0-7]{2}|(?P<group>[1-9][0-9]?)|.)",
    re.DOTALL,
)
_SIMPLE: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LOOKS: Final = {"(?=": False, "(?!": False, "(?<=": True, "(?<!": True}
_ANCHORS: Final = frozenset({"^", "$", r"\A", r"\Z", r"\b", r"\B"})


@dataclass(frozen=True, slots=True)
class Char:
    """One character of the text; ``literal`` in lower case if it is a certain ASCII one."""

    literal: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A condition on the position, such as ``^``."""


@dataclass(frozen=True, slots=True)
class BackReference:
    """The text of a group, of any length, again."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts that follow each other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Branches that are tried one after the other."""

    branches: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part with a quantifier; ``most`` is None for any number."""

    part: "Node"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """A look ahead or behind; the position stays."""

    part: Alternatives
    is_behind: bool


Node = Char | Anchor | BackReference | Sequence | Alternatives | Repeat | Look


def parse(pattern: str) -> Alternatives:
    """Return the parts of a pattern that Python accepts.

    Raises:
        InvalidName: the pattern has syntax that is not supported, such as conditions or comments.
    """
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def parse(self) -> Alternatives:
        found = self._alternatives(0)
        if self._at < len(self._pattern):
            raise self._refused("a closing bracket without an opening one")
        return found

    def _alternatives(self, depth: int) -> Alternatives:
        if depth > _MAX_DEPTH:
            raise self._refused(f"groups are nested more than {_MAX_DEPTH} deep")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        return Alternatives(tuple(branches))

    def _sequence(self, depth: int) -> Sequence:
        parts: list[Node] = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._repeated(self._atom(depth)))
        return Sequence(tuple(parts))

    def _atom(self, depth: int) -> Node:
        match self._peek():
            case "(":
                return self._group(depth)
            case "[":
                found = self._take(_CLASS, "a character class without a closing bracket")
                content = found.group()[1:-1]
                return _char(content) if len(content) == 1 else Char()
            case "\\":
                return self._escape()
            case char:
                self._at += 1
                if char in _ANCHORS:
                    return Anchor()
                return Char() if char == "." else _char(char)

    def _escape(self) -> Node:
        found = self._take(_ESCAPE, "nothing after the backslash")
        text = found.group()
        if found["group"]:
            return BackReference()
        if text in _ANCHORS:
            return Anchor()
        # Letters and digits stand for classes, or for characters that no name has.
        is_literal = len(text) == 2 and not text[1].isalnum()
        return _char(text[1]) if is_literal else Char()

    def _group(self, depth: int) -> Node:
        head = self._take(_GROUP, "this kind of group is not allowed").group()
        if head == "(" and self._peek() == "?":
            self._at -= 1
            raise self._refused("this kind of group is not allowed")
        found = self._alternatives(depth + 1)
        if self._peek() != ")":
            raise self._refused("a group without a closing bracket")
        self._at += 1
        return Look(found, _LOOKS[head]) if head in _LOOKS else found

    def _repeated(self, part: Node) -> Node:
        """Return the part with its quantifier, if one follows."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return part
        self._at = found.end()
        sign, exactly, low, high = found.groups()
        if sign is not None:
            return Repeat(part, *_SIMPLE[sign])
        if exactly is not None:
            return Repeat(part, int(exactly), int(exactly))
        return Repeat(part, int(low or 0), int(high) if high else None)

    def _take(self, syntax: re.Pattern[str], otherwise: str) -> re.Match[str]:
        found = syntax.match(self._pattern, self._at)
        if found is None:
            raise self._refused(otherwise)
        self._at = found.end()
        return found

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refused(self, why: str) -> InvalidName:
        return InvalidName(f"pattern {self._pattern[:80]!r}, character {self._at + 1}: {why}")


def _char(text: str) -> Char:
    return Char(text.lower() if text.isascii() else "")


# The steps that Python's matcher takes at most for a regular expression.
#
# The matcher backtracks: it tries all ways to match one after another. For each part of the
# pattern, this module counts the ways in which the matcher reaches each position of the text, as
# if every character matched and the end never did: no text takes more steps. The sum over all
# parts is the bound, so a long part behind many ways counts once per way.
#
# One thing makes the bound lower: after the characters of a literal the matcher is only where that
# literal is in the text, and two places of ``.example`` are at least eight characters apart.


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


# Regular expressions of operators, with a bound on the time that a match may take.
#
# Python's matcher backtracks: for ``(a+)+b`` its steps double with each letter of the text, and
# forty letters block the process for hours. So the steps of a pattern are counted in advance, and
# a pattern with too many is refused.
#
# An engine without backtracking would need no bound. RE2 has neither look-around nor
# back-references, which patterns of a Pulsar cluster may have (docs: threat-patterns).


MAX_PATTERN_LENGTH: Final = 1024
MAX_TEXT_LENGTH: Final = 256
# Three unbounded quantifiers in one pattern are enough for any name, and a domain name may follow.
# The matcher takes a tenth of a second for as many steps.
_MAX_STEPS: Final = 20_000_000
_ADVICE: Final = (
    "use at most three of * and +, none of them on a group that may vary, "
    "few optional parts, and little behind them"
)


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, and cache the result.

    Raises:
        InvalidName: the pattern is not a regular expression, or a match may take too long.
    """
    found = _judged(pattern)
    if isinstance(found, str):
        raise InvalidName(found)
    return found


# Refusals are kept, too: counting takes long, and each new text would count again.
@lru_cache(maxsize=4096)
def _judged(pattern: str) -> re.Pattern[str] | str:
    try:
        return _compile(pattern)
    except InvalidName as error:
        return str(error)


def _compile(pattern: str) -> re.Pattern[str]:
    quoted = repr(pattern[:80])
    if len(pattern) > MAX_PATTERN_LENGTH:
        text = f"{len(pattern)} characters, at most {MAX_PATTERN_LENGTH}; use several patterns"
        raise InvalidName(f"pattern {quoted}...: {text}")
    try:
        with warnings.catch_warnings(action="ignore"):
            ready = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidName(f"pattern {quoted} is not a regular expression: {error}") from None
    if not takes_at_most(_MAX_STEPS, parse(pattern), MAX_TEXT_LENGTH):
        raise InvalidName(f"pattern {quoted} may take too long: {_ADVICE}")
    return ready


@lru_cache(maxsize=65_536)
def is_match(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text.

    A refused pattern matches nothing, and no pattern matches a text of more than 256 characters.
    """
    if len(text) > MAX_TEXT_LENGTH:
        return False
    try:
        return compiled(pattern).fullmatch(text) is not None
    except InvalidName:
        return False
