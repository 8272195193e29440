"""Each planted break is still one of the code as it is, and its suites are still there."""

import re
from collections import Counter
from typing import Final

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import KINDS, Mutant, Replace, StaleEdit
from tests.mutants.tree import ROOT
from tests.support.rules.families import for_each

SENTENCES: Final = {"I1a", "I1b", *(f"I{number}" for number in range(2, 13)), "constraints"}
LEAST: Final = 60
# Rooms that a sentence depends on.
ROOMS: Final = {
    *("core/machines", "core/partitions", "coordination/session", "coordination/locks"),
    *("coordination/election", "coordination/directives", "broker/ownership", "broker/namespaces"),
    *("broker/replicas", "balancer/execution", "controller", "dataplane/bundles", "store/signed"),
    *("dataplane/webhook", "lab/replication", "store/zookeeper", "store/watched_cache"),
    *("daemon/lifecycle",),
}


def planted(mutant: Mutant) -> dict[str, str]:
    """The sources with the mutant in them, by file."""
    sources: dict[str, str] = {}
    for edit in mutant.edits:
        before = sources.get(edit.file) or (ROOT / edit.file).read_text()
        sources[edit.file] = edit.apply(before)
        assert sources[edit.file] != before
    return sources


@for_each("mutant", MUTANTS)
def test_the_code_still_has_what_a_mutant_breaks(mutant: Mutant) -> None:
    assert planted(mutant)


def test_an_edit_whose_text_is_gone_or_there_twice_is_stale() -> None:
    with pytest.raises(StaleEdit):
        Replace("broker_ctl/clock.py", "no such text", "").apply("some text")
    with pytest.raises(StaleEdit):
        Replace("broker_ctl/clock.py", "text", "").apply("text, text")


def test_names_are_unique_and_sentences_known() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert all(set(mutant.sentence.split()) <= SENTENCES for mutant in MUTANTS)


def test_there_are_mutants_of_each_room_that_a_sentence_depends_on() -> None:
    files = {edit.file for mutant in MUTANTS for edit in mutant.edits}
    assert len(MUTANTS) >= LEAST
    assert {
        room
        for room in ROOMS
        if not any(f"/{room}/" in file or file.endswith(f"/{room}.py") for file in files)
    } == set()


def test_each_mutant_has_suites_that_exist_the_fastest_first() -> None:
    for mutant in MUTANTS:
        kinds = [suite.kind for suite in mutant.suites]
        assert kinds, mutant.name
        assert kinds == sorted(kinds, key=KINDS.index), mutant.name
        missing = [p for suite in mutant.suites for p in suite.paths if not (ROOT / p).exists()]
        assert missing == [], mutant.name
