"""Regular expressions of operators, with a bound on the time that a match may take.

Python's matcher backtracks: it tries all ways to match one after another. For ``(a+)+b`` their
number doubles with each letter of the text, and forty letters block the process for hours. So this
module counts the ways of a pattern in advance, and refuses a pattern with too many.
"""

import re
import warnings
from functools import lru_cache
from typing import Final

from broker_ctl.errors import InvalidName

MAX_PATTERN_LENGTH: Final = 1024
MAX_TEXT_LENGTH: Final = 256
_MAX_DEPTH: Final = 20
# Three unbounded quantifiers in one pattern are enough for any name. Together they can divide 256
# characters in 142 ** 3 ways, which takes the matcher ten milliseconds.
_STAR_WAYS: Final = 142
_MAX_WAYS: Final = _STAR_WAYS**3

_QUANTIFIER: Final = re.compile(r"(?:([*+?])|\{(\d+)\}|\{(\d*),(\d*)\})[?+]?")
_GROUP: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|>|P<\w+>|[aims]+:|[aims]+(?=\))))?")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_SIMPLE: Final = {"*": (0, MAX_TEXT_LENGTH), "+": (1, MAX_TEXT_LENGTH), "?": (0, 1)}


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, and cache the result.

    Raises:
        InvalidName: the pattern is not a regular expression, or a match may take too long.
    """
    quoted = repr(pattern[:80])
    if len(pattern) > MAX_PATTERN_LENGTH:
        text = f"{len(pattern)} characters, at most {MAX_PATTERN_LENGTH}; use several patterns"
        raise InvalidName(f"pattern {quoted}...: {text}")
    try:
        with warnings.catch_warnings(action="ignore"):
            ready = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidName(f"pattern {quoted} is not a regular expression: {error}") from None
    if _Ways(pattern).count() > _MAX_WAYS:
        text = "use at most three of * and +, and none of them on a group that may vary"
        raise InvalidName(f"pattern {quoted} may take too long: {text}")
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


class _Ways:
    """Counts the ways in which a pattern can match a text; the result is an upper bound.

    Raises:
        InvalidName: the pattern has syntax that is not counted, such as conditions or comments.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def count(self) -> int:
        ways = self._alternatives(0)
        if self._at < len(self._pattern):
            raise self._refused("a closing bracket without an opening one")
        return ways

    def _alternatives(self, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise self._refused(f"groups are nested more than {_MAX_DEPTH} deep")
        ways = self._sequence(depth)
        while self._peek() == "|":
            self._at += 1
            ways += self._sequence(depth)
        return ways

    def _sequence(self, depth: int) -> int:
        ways = 1
        while self._peek() not in {"", "|", ")"}:
            ways = min(ways * self._repeated(self._atom(depth)), _MAX_WAYS + 1)
        return ways

    def _atom(self, depth: int) -> int:
        char = self._peek()
        if char == "(":
            return self._group(depth)
        if char == "[":
            ranges = _CLASS.match(self._pattern, self._at)
            if ranges is None:
                raise self._refused("a character class without a closing bracket")
            self._at = ranges.end()
        else:
            self._at += 2 if char == "\\" else 1
        return 1

    def _group(self, depth: int) -> int:
        head = _GROUP.match(self._pattern, self._at)
        assert head is not None
        if head.end() == self._at + 1 and self._pattern[head.end() : head.end() + 1] == "?":
            raise self._refused("this kind of group is not allowed")
        self._at = head.end()
        ways = self._alternatives(depth + 1)
        if self._peek() != ")":
            raise self._refused("a group without a closing bracket")
        self._at += 1
        return ways

    def _repeated(self, ways: int) -> int:
        """Return the ways of an atom with its quantifier, if one follows."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return ways
        self._at = found.end()
        sign, exactly, low, high = found.groups()
        if sign is not None:
            least, most = _SIMPLE[sign]
        elif exactly is not None:
            least = most = int(exactly)
        else:
            least, most = int(low or 0), int(high or MAX_TEXT_LENGTH)
        if ways == 1:
            return min(max(1, most - least + 1), _STAR_WAYS)
        total = 0
        for times in range(least, most + 1):
            total += ways ** min(times, 64)
            if total > _MAX_WAYS:
                break
        return total

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refused(self, why: str) -> InvalidName:
        return InvalidName(f"pattern {self._pattern[:80]!r}, character {self._at + 1}: {why}")
