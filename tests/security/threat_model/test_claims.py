"""Each promise of the threat model has a test; claims.toml says which."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.store.signed import FAMILIES
from tests.support.rules.families import for_each
from tests.support.rules.named_tests import exists, names_used_by

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
_FILE: Final = tomllib.loads((Path(__file__).parent / "claims.toml").read_text(encoding="utf-8"))
# Of what a claim speaks, with the beginnings of such claims.
WALKS: Final[dict[str, list[str]]] = _FILE.pop("walks")
# Sentences that say nothing of what daemons and commands do, by what they are.
UNCLAIMED: Final[dict[str, list[str]]] = _FILE.pop("unclaimed")
CLAIMS: Final[dict[str, dict[str, list[str]]]] = _FILE
# By what a test that walks all of them is known: the list that the code declares.
DECLARED: Final = {
    "routes": {"ROUTES", "ROUTE_RULES"},
    "ports": {"PORT_KEYS", "HTTP"},
    "files": {"DECLARATIONS", "TRUSTED", "TRUSTED_FILES", "USES"},
    "names": {"BUILDERS", "ROUTES", "FINDERS", "STARTING"},
    "settings": {"DECLARATIONS"},
    "code": {"PACKAGE", "API"},
    "families": {"FAMILIES"},
}
ONE_PLACE: Final = "one place"
_CHECKED: Final = re.compile(r"^\(threat-checked\)=\n(.*?)^\([\w-]+\)=$", re.MULTILINE | re.DOTALL)
_BULLET: Final = re.compile(r"^- (.*\n(?:  .*\n)*)", re.MULTILINE)
_END: Final = re.compile(r"(?<=\.) (?=[A-Z*`])")
# Anchors, headings and rows of tables.
_NO_PROSE: Final = re.compile(r"^(?:\([\w-]+\)=|#.*|\|.*)$", re.MULTILINE)


def sentences(page: str) -> list[str]:
    """The sentences of the list below "What is checked"."""
    section = _CHECKED.search(page)
    assert section
    bullets = (" ".join(bullet.split()) for bullet in _BULLET.findall(section[1]))
    return [sentence for bullet in bullets for sentence in _END.split(bullet)]


def prose(page: str) -> list[str]:
    """The sentences of all paragraphs and lists of the other sections."""
    text = _NO_PROSE.sub("", _CHECKED.sub("", page)).replace("\n- ", "\n\n")
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return [sentence for each in paragraphs if each for sentence in _END.split(each)]


def rows(page: str) -> list[str]:
    """The rows of all tables, without their heads."""
    tables = re.findall(r"^\|.*\|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", page, re.MULTILINE)
    return [row.strip("| ") for table in tables for row in table.splitlines()]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("checked", sentences(PAGE)), ("tables", rows(PAGE)), ("prose", prose(PAGE))],
    ids=["checked", "tables", "prose"],
)
def test_each_sentence_has_a_test_and_each_entry_a_sentence(kind: str, said: list[str]) -> None:
    assert len(said) > 10
    entries = [*CLAIMS[kind]]
    if kind == "prose":
        entries += [entry for some in UNCLAIMED.values() for entry in some]
    begun = {
        sentence: [entry for entry in entries if sentence.startswith(entry)] for sentence in said
    }
    assert [sentence for sentence, found in begun.items() if len(found) != 1] == []
    uses = Counter(entry for found in begun.values() for entry in found)
    assert [entry for entry in entries if uses[entry] != 1] == []


@for_each(
    "named", sorted({name for kind in CLAIMS.values() for one in kind.values() for name in one})
)
def test_each_named_test_exists(named: str) -> None:
    assert exists(named)


def test_no_entry_is_empty() -> None:
    assert [key for kind in CLAIMS.values() for key, named in kind.items() if not named] == []


@pytest.mark.parametrize(
    ("of", "claim"), [(of, claim) for of, claims in WALKS.items() for claim in claims]
)
def test_a_claim_about_all_is_attacked_at_all(of: str, claim: str) -> None:
    named = CLAIMS["checked"].get(claim) or CLAIMS["tables"][claim]
    if of == ONE_PLACE:
        return
    # A test that has a list of its own attacks a sample.
    walking = [test for test in named if names_used_by(test) & DECLARED[of]]
    assert walking != [], named


def test_each_checked_claim_says_of_what_it_speaks() -> None:
    said = Counter(claim for claims in WALKS.values() for claim in claims)
    assert [claim for claim in CLAIMS["checked"] if not said[claim]] == []
    assert said.keys() <= CLAIMS["checked"].keys() | CLAIMS["tables"].keys()
    of_one_place = set(WALKS[ONE_PLACE])
    assert not [claim for claim in of_one_place if said[claim] > 1]


def test_the_page_names_each_family_that_is_signed() -> None:
    table = re.search(r"^\| family \|.*\n\|[-| ]+\|\n((?:\|.*\|\n)+)", PAGE, re.MULTILINE)
    assert table
    named = {
        name
        for row in table[1].splitlines()
        for name in re.findall(r"`([\w-]+)`", row.split("|")[1])
    }
    assert named == set(FAMILIES)


def test_the_page_names_each_authority() -> None:
    authorities = {
        key
        for key, one in DECLARATIONS.items()
        if one.setting.guard is not None
        and re.search(r"TrustCertsFilePath$|CaFile$", key, re.IGNORECASE)
    }
    (row,) = [row for row in rows(PAGE) if row.startswith("authorities: ")]
    assert set(re.findall(r"`(\w+)`", row)) == authorities
