"""Each promise of the threat model has a test; claims.toml says which."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.support.rules.named_tests import exists

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
CLAIMS: Final[dict[str, dict[str, list[str]]]] = tomllib.loads(
    (Path(__file__).parent / "claims.toml").read_text(encoding="utf-8")
)
_CHECKED: Final = re.compile(r"^\(threat-checked\)=\n(.*?)^\([\w-]+\)=$", re.MULTILINE | re.DOTALL)
_BULLET: Final = re.compile(r"^- (.*\n(?:  .*\n)*)", re.MULTILINE)
_END: Final = re.compile(r"(?<=\.) (?=[A-Z])")


def sentences(page: str) -> list[str]:
    """The sentences of the list below "What is checked"."""
    section = _CHECKED.search(page)
    assert section
    bullets = (" ".join(bullet.split()) for bullet in _BULLET.findall(section[1]))
    return [sentence for bullet in bullets for sentence in _END.split(bullet)]


def rows(page: str) -> list[str]:
    """The rows of all tables, without their heads."""
    tables = re.findall(r"^\|.*\|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", page, re.MULTILINE)
    return [row.strip("| ") for table in tables for row in table.splitlines()]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("checked", sentences(PAGE)), ("tables", rows(PAGE))],
    ids=["checked", "tables"],
)
def test_each_sentence_has_a_test_and_each_entry_a_sentence(kind: str, said: list[str]) -> None:
    assert len(said) > 10
    begun = {
        sentence: [entry for entry in CLAIMS[kind] if sentence.startswith(entry)]
        for sentence in said
    }
    assert [sentence for sentence, found in begun.items() if len(found) != 1] == []
    uses = Counter(entry for found in begun.values() for entry in found)
    assert [entry for entry in CLAIMS[kind] if uses[entry] != 1] == []


@pytest.mark.parametrize(
    "named", sorted({name for kind in CLAIMS.values() for one in kind.values() for name in one})
)
def test_each_named_test_exists(named: str) -> None:
    assert exists(named)


def test_no_entry_is_empty() -> None:
    assert [key for kind in CLAIMS.values() for key, named in kind.items() if not named] == []
