import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model import regular_expressions
from broker_ctl.core.model.regular_expressions import MAX_TEXT_LENGTH, compiled, is_match
from broker_ctl.errors import InvalidName

USUAL = [
    "tenant/ns.*",
    "broker-[0-9]+",
    r"(?:broker|bookie)-\d{1,3}\.prod\.example\.com",
    r"([0-9]{1,3}\.){3}[0-9]{1,3}",
    "(?i)BROKER-1",
    "^(?!special).*",
    ".*-eu-.*[.]prod.*",
    "b[^]]+",
    "broker-1|broker-2",
]
CATASTROPHIC = [
    "(a+)+b",
    "(a*)*b",
    "(a|aa)+b",
    "(.*a){12}",
    "((a?){9}){9}b",
    ".*.*.*.*x",
    "(?:a{0,99999})+b",
    "(a{1,200}){1,200}",
    "(a|a){0,22}x",
]
OTHERWISE_REFUSED = [
    "(",
    "[a",
    "*",
    "x{3,1}",
    r"\p{Alpha}",
    "(?#note)a",
    "(?x) a # b",
    "(a)?(?(1)b|c)",
    "(" * 30 + ")" * 30,
    "a" * 1025,
]


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_of_operators_are_accepted(pattern: str) -> None:
    assert compiled(pattern).pattern == pattern


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_a_pattern_that_could_block_the_process_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidName, match="may take too long: use at most three"):
        compiled(pattern)
    assert not is_match(pattern, "a" * 40)


@pytest.mark.parametrize("pattern", OTHERWISE_REFUSED)
def test_an_invalid_pattern_is_refused_and_matches_nothing(pattern: str) -> None:
    with pytest.raises(InvalidName, match="pattern "):
        compiled(pattern)
    assert not is_match(pattern, "a")


def test_the_whole_text_must_match() -> None:
    assert is_match("broker-1.*", "broker-17")
    assert not is_match("broker-1", "broker-17")
    assert not is_match("roker-17", "broker-17")


def test_a_text_that_is_longer_than_any_name_is_not_matched() -> None:
    assert is_match("a*", "a" * MAX_TEXT_LENGTH)
    assert not is_match("a*", "a" * (MAX_TEXT_LENGTH + 1))


def test_a_pattern_that_python_only_warns_of_is_taken() -> None:
    assert is_match("[[a]", "[")


@given(st.text("ab.*+?{}(|)[]^\\1,", max_size=14))
def test_every_accepted_pattern_matches_quickly(pattern: str) -> None:
    try:
        ready = compiled(pattern)
    except InvalidName:
        return
    began_s = time.thread_time()
    assert is_match(pattern, "ab" * 60) == bool(re.fullmatch(ready, "ab" * 60))
    assert time.thread_time() - began_s < 5


def test_a_refused_pattern_is_judged_once_whatever_it_is_matched_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[object] = []

    def count(*arguments: object) -> bool:
        judged.append(arguments)
        return False

    monkeypatch.setattr(regular_expressions, "takes_at_most", count)
    pattern = "refused-once-(a+)+b"
    for number in range(20):
        assert not is_match(pattern, f"text-{number}")
        with pytest.raises(InvalidName, match="may take too long"):
            compiled(pattern)
    assert len(judged) == 1
