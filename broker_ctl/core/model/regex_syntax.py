"""The parts of a regular expression, as far as they matter for the work of a match.

Python has checked the pattern before; here it is read a second time, because the tree that Python
makes of it is private.
"""

import re
from dataclasses import dataclass
from typing import Final

from broker_ctl.errors import InvalidName

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
