"""The text of a broker.conf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.settings.schema import Entry
from broker_ctl.settings.sources import line_of, parse


def entries(text: str) -> dict[str, str]:
    found, problems = parse(text, "a.conf")
    assert problems == []
    return {entry.key: entry.value for entry in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a = 1 \t\r\n", {"a": "1"}),
        ("# a=1\n! b=2\n\n   \n  # c=3\n", {}),
        ("a=b=c==", {"a": "b=c=="}),
        ("a=", {"a": ""}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=1,\\\n   2,\\\n3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# part of the value", {"a": "1# part of the value"}),
        ("# a comment does not go on \\\na=1", {"a": "1"}),
        ("a=two \\\\\nb=1", {"a": "two \\", "b": "1"}),
        ("a=the end \\", {"a": "the end"}),
        ("a=d\u00e4mon", {"a": "d\u00e4mon"}),
    ],
)
def test_lines_are_read_as_java_and_pulsar_read_them(text: str, expected: dict[str, str]) -> None:
    assert entries(text) == expected


def test_an_entry_knows_its_line_and_a_continued_one_its_first() -> None:
    found, _ = parse("# comment\na=1\\\n2\n\nb=3", "conf/a.conf")
    assert found == [Entry("a", "12", "conf/a.conf:2"), Entry("b", "3", "conf/a.conf:5")]


def test_all_bad_lines_are_reported_with_their_numbers() -> None:
    found, problems = parse("a=1\nno equals sign\nb c=2\n=3\na=4\n", "a.conf")
    assert [str(problem) for problem in problems] == [
        "a.conf:2: there is no '=' in the line",
        "a.conf:3: the text before '=' is not a key",
        "a.conf:4: the text before '=' is not a key",
        "a.conf:5: a: given twice, in lines 1 and 5",
    ]
    assert [entry.value for entry in found] == ["1"]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])).map(lambda text: text.strip(" ")))
def test_every_value_comes_back_from_its_line(value: str) -> None:
    assert entries(line_of("key", value) + "\nnext=1") == {"key": value, "next": "1"}
