"""The audit file: it continues its chain, and nobody else reads, writes or replaces it."""

import os
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.errors import CorruptRecord
from broker_ctl.security.audit.event import verify
from broker_ctl.security.audit.log import AuditFile

LARGE = 1 << 30


def row(number: int) -> dict[str, Any]:
    return {"kind": "change", "at_ms": number}


def written(path: Path, *numbers: int, max_bytes: int = LARGE, kept: int = 3) -> None:
    file = AuditFile(path, max_bytes, kept)
    file.open()
    for number in numbers:
        file.append([row(number)])
    file.close()


def lines_of(*paths: Path) -> list[bytes]:
    return [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_the_file_is_its_owners_alone_whatever_the_umask(path: Path) -> None:
    earlier = os.umask(0)
    try:
        written(path, 1)
    finally:
        os.umask(earlier)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_restart_continues_the_chain(path: Path) -> None:
    written(path, 1, 2)
    written(path, 3)
    assert verify(lines_of(path)).lines == 3


def test_an_unfinished_line_is_removed_at_the_restart(path: Path) -> None:
    written(path, 1, 2)
    with path.open("ab") as file:
        file.write(b'{"at_ms":3,"kind":"ch')
    written(path, 4)
    assert verify(lines_of(path)).lines == 3


def test_rotated_files_are_one_chain_and_the_oldest_are_deleted(path: Path) -> None:
    written(path, *range(6), max_bytes=1, kept=3)
    rotated = [path.with_name(f"audit.log.{number}") for number in (3, 2, 1)]
    found = verify(lines_of(*rotated, path))
    assert (found.first, found.lines) == (3, 4)
    assert sorted(each.name for each in path.parent.iterdir()) == [
        *("audit.log", "audit.log.1", "audit.log.2", "audit.log.3")
    ]


def test_a_death_in_the_middle_of_a_rotation_keeps_the_chain(path: Path) -> None:
    written(path, 1, 2)
    path.rename(path.with_name("audit.log.1"))
    written(path, 3)
    assert verify(lines_of(path.with_name("audit.log.1"), path)).lines == 3


def test_a_second_process_is_refused(path: Path) -> None:
    first = AuditFile(path, LARGE, 1)
    first.open()
    with pytest.raises(OSError, match="another process"):
        AuditFile(path, LARGE, 1).open()
    first.close()


def test_a_link_to_another_file_is_not_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("x")
    path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        AuditFile(path, LARGE, 1).open()
    assert victim.read_text() == "x"


@pytest.mark.parametrize("mode", [0o620, 0o640, 0o604, 0o666])
def test_a_file_that_others_may_use_is_refused(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)
    with pytest.raises(PermissionError, match="0600"):
        AuditFile(path, LARGE, 1).open()


def test_a_pipe_is_refused(path: Path) -> None:
    os.mkfifo(path, 0o600)
    with pytest.raises(OSError, match="not a regular file"):
        AuditFile(path, LARGE, 1).open()


@pytest.mark.parametrize("damage", [b"hello\n", b"x" * 100_000, b'{"format":1}\n'])
def test_a_damaged_end_is_not_continued(path: Path, damage: bytes) -> None:
    written(path, 1)
    with path.open("ab") as file:
        file.write(damage)
    with pytest.raises(CorruptRecord):
        AuditFile(path, LARGE, 1).open()


def test_a_write_that_fails_leaves_no_partial_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AuditFile(path, LARGE, 1)
    file.open()
    file.append([row(1)])

    def fail(_: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="no space"):
            file.append([row(2), row(3)])
    file.append([row(4)])
    file.close()
    found = verify(lines_of(path))
    assert found.lines == 2
