"""The bound on steps is true: going every way never takes more than twice as many."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broker_ctl.core.model import regular_expressions
from broker_ctl.core.model.regular_expressions import (
    Alternatives,
    Anchor,
    Char,
    Look,
    Node,
    Repeat,
    Sequence,
    parse,
    takes_at_most,
)

MAX_STEPS = 50_000
Rest = Callable[[int], None]


class TooMany(Exception):
    """More steps than a test waits for."""


class Matcher:
    """Goes every way through a text, as if the end of the pattern never matched."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.steps = 0

    def match(self, node: Node, at: int, rest: Rest) -> None:
        """Match a part at a position, and the rest at each position behind it."""
        match node:
            case Char(literal):
                self._step()
                if at < len(self._text) and literal in ("", self._text[at]):
                    rest(at + 1)
            case Anchor():
                self._step()
                rest(at)
            case Sequence(parts):
                self._sequence(parts, at, rest)
            case Alternatives(branches):
                for branch in branches:
                    self.match(branch, at, rest)
            case Look(part, is_behind=False):
                self.match(part, at, lambda _: None)
                rest(at)
            case Repeat(part, least, most):
                self._repeat(part, at, rest, (least, len(self._text) if most is None else most))
            case _:
                raise AssertionError(node)

    def _sequence(self, parts: tuple[Node, ...], at: int, rest: Rest) -> None:
        if not parts:
            rest(at)
            return
        self.match(parts[0], at, lambda behind: self._sequence(parts[1:], behind, rest))

    def _repeat(self, part: Node, at: int, rest: Rest, times: tuple[int, int]) -> None:
        least, most = times
        if most > 0:

            def again(behind: int) -> None:
                # As Python's: what matches nothing is not repeated.
                if behind > at:
                    self._repeat(part, behind, rest, (max(0, least - 1), most - 1))
                elif least <= 1:
                    rest(behind)

            self.match(part, at, again)
        if least == 0:
            rest(at)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooMany


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", r"\b", "^"])
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?"])


def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(smaller, min_size=1, max_size=4).map("".join),
        st.lists(smaller, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(smaller, QUANTIFIERS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        smaller.map(lambda part: f"(?={part})"),
    )


PATTERNS = st.recursive(
    st.one_of(ATOMS, st.tuples(st.sampled_from("ab."), QUANTIFIERS).map("".join)),
    larger,
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _no_allowance_for_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_COUNTING_STEPS", 0)


def steps_of(pattern: str, text: str) -> int:
    matcher = Matcher(text)
    matcher.match(parse(pattern), 0, lambda _: None)
    return matcher.steps


def test_the_reference_goes_every_way() -> None:
    # Three letters, and X behind each number of them; four ways to two letters.
    assert steps_of("a*X", "aaa") == 3 + 4
    assert steps_of("(?:a|a)(?:a|a)X", "aaa") == 2 + 4 + 4


@settings(max_examples=150, deadline=None)
@given(PATTERNS, st.sampled_from(["a" * 12, "ab" * 6, "aab" * 4, "b" + "a" * 11]))
def test_no_match_takes_more_than_twice_its_bound(pattern: str, text: str) -> None:
    try:
        steps = steps_of(pattern, text)
    except TooMany:
        steps = MAX_STEPS
    # The last try of a quantifier, which fails, is a step here and part of another one there.
    assume(steps > 3)
    assert not takes_at_most(steps // 2 - 1, parse(pattern), len(text))
