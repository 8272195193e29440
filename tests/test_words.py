"""The words of the house, held against every text: the field's names, and plain English."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.rules import structure, words

ROOT: Final = Path(__file__).parents[1]
# They quote what is not to be written: the changelog has the earlier names for those who look one
# up, the others are this law.
QUOTING: Final = frozenset({"CHANGELOG.md", "tests/test_words.py", "tests/support/rules/words.py"})


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of all that people read, but for what others wrote (vendored files)."""
    for path in structure.files_of(ROOT):
        if str(path) in QUOTING or "vendor" in path.parts:
            continue
        try:
            yield str(path), (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue


def test_texts_and_names_are_plain_english() -> None:
    found = [line for path, text in texts() for line in words.riddles(path, text)]
    assert found == []


def test_earlier_names_appear_in_the_changelog_only() -> None:
    found = [line for path, text in texts() for line in words.replaced_names(path, text)]
    assert found == []


@pytest.mark.parametrize("phrase", words.RIDDLES)
def test_each_phrase_is_found_in_texts_and_names(phrase: str) -> None:
    first, *others = phrase.split()
    snake, camel = "_".join((first, *others)), phrase.title().replace(" ", "")
    for text in (
        f"it is {phrase}, then",
        f"{phrase.capitalize()} comes first",
        "\n    # ".join((first, *others)),
        f"def test_a_{snake}_b(): ...",
        f"class An{camel}Event: ...",
        f"{snake.upper()}: Final = 1",
    ):
        assert len(list(words.riddles("x.py", text))) == 1, text


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("a bundle that is no range", True),
        ("nodes which are\n    no bundles", True),
        ("It was no error", True),
        ("def test_what_is_no_bundle_is_refused() -> None: ...", True),
        ("def test_there_is_no_leader() -> None: ...", False),
        ("there is no leader", False),
        ("There are\n# no bundles", False),
        ("the lease is no longer valid", False),
        ("the epoch is no later than that", False),
        ("it is normal", False),
        ("intelligent, retold, storyteller, Renewal, wheedle", False),
        ("TellTale", True),
    ],
)
def test_words_that_contain_a_phrase_are_not_found(text: str, *, is_found: bool) -> None:
    assert bool(list(words.riddles("x.py", text))) is is_found


@pytest.mark.parametrize("name", words.REPLACED)
def test_each_earlier_name_is_found_as_a_whole_word(name: str) -> None:
    assert len(list(words.replaced_names("x.py", f"from broker_ctl.a import {name}\n"))) == 1
    assert list(words.replaced_names("x.py", f"x{name}y")) == []


def test_a_finding_names_its_place_and_what_to_write() -> None:
    (found,) = words.riddles("broker_ctl/x.py", "one\ntwo whoever\n")
    assert found == (
        "broker_ctl/x.py:2: 'whoever' "
        "(the one that acts, by its name: caller, client, leader, operator)"
    )
