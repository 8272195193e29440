"""Each target over the kept inputs, without atheris: seeds, and what a run has found once."""

from pathlib import Path

import pytest

from tests.fuzz.targets.catalog import CORPUS, TARGETS

INPUTS = sorted(CORPUS.glob("*/*"))
_MAX_BYTES = 4096


def test_each_target_has_kept_inputs_which_are_small() -> None:
    assert {file.parent.name for file in INPUTS} == TARGETS.keys()
    assert all(file.stat().st_size <= _MAX_BYTES for file in INPUTS)


@pytest.mark.parametrize("name", TARGETS)
def test_every_short_input_is_taken(name: str) -> None:
    for first in range(256):
        for rest in (b"", b"\x00", b"\xff" * 8, b"{}", b'{"a":1}'):
            TARGETS[name](bytes([first]) + rest)


@pytest.mark.parametrize("file", INPUTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_kept_inputs_are_taken(file: Path) -> None:
    TARGETS[file.parent.name](file.read_bytes())
