"""``broker-ctl audit verify`` and ``tail`` on files of a real audit log."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.audit import FollowedLog
from broker_ctl.cli.main import main
from broker_ctl.security.audit.log import AuditFile


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def write(path: Path, *targets: str, max_bytes: int = 1 << 30) -> None:
    file = AuditFile(path, max_bytes, 3)
    file.open()
    for target in targets:
        row = {"kind": "change", "at_ms": 1_700_000_000_000, "target": target, "status": "204"}
        file.append([{**row, "principal": "admin", "address": "127.0.0.1"}])
    file.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    write(path, "/a", "/b", "/c")
    return path


def test_an_intact_log_and_its_hash(log: Path) -> None:
    assert "3 lines, 1 to 3, are intact" in run("verify", log).output
    found = json.loads(run("verify", log, "--output", "json").output)
    assert found.pop("hash") in run("verify", log).output
    assert found == {"is_intact": True, "lines": 3, "first": 1, "last": 3}


def test_a_changed_line_is_named(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"/b"', b'"/x"'))
    result = run("verify", log)
    assert result.exit_code == 1
    assert f"{log}, line 2: its hash is not that of its content" in result.output
    result = run("verify", log, "--output", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["line"] == 2


def test_a_removed_end_shows_against_an_earlier_hash(log: Path) -> None:
    kept = json.loads(run("verify", log, "--output", "json").output)["hash"]
    write(log, "/d")
    assert run("verify", log, "--expect", kept).exit_code == 0
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    assert run("verify", log).exit_code == 0
    result = run("verify", log, "--expect", kept)
    assert result.exit_code == 1
    assert "no line has the expected hash" in result.output


def test_a_line_of_a_second_file_is_named_by_its_file(tmp_path: Path) -> None:
    path, earlier = tmp_path / "audit.log", tmp_path / "audit.log.1"
    write(path, "/a", "/b", max_bytes=1)
    assert run("verify", earlier, path).exit_code == 0
    assert f"{earlier}, line 1: sequence number 3" in run("verify", path, earlier).output


def test_the_newest_events(log: Path) -> None:
    lines = run("tail", "-n", "2", log).output.splitlines()
    assert lines[0].startswith("2023-11-14T22:13:20Z  change  admin@127.0.0.1  /b  204")
    events = [json.loads(line) for line in run("tail", log, "--output", "json").stdout.splitlines()]
    assert [event["target"] for event in events] == ["/a", "/b", "/c"]


def test_a_hostile_event_commands_no_terminal(log: Path) -> None:
    write(log, "/\x1b]0;pwned\x07")
    for output in ("table", "json"):
        assert "\x1b" not in run("tail", log, "--output", output).output


def test_new_events_are_followed_over_a_rotation(log: Path) -> None:
    command = [sys.executable, "-m", "broker_ctl", "audit", "tail", "-n", "1", "--follow", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "/c" in process.stdout.readline()
            write(log, "/d", "/e", max_bytes=1)
            assert "/d" in process.stdout.readline()
            assert "/e" in process.stdout.readline()
        finally:
            process.kill()


@pytest.fixture
def followed(log: Path) -> Iterator[FollowedLog]:
    with closing(FollowedLog(log)) as followed:
        assert new_targets(followed) == ["/a", "/b", "/c"]
        yield followed


def new_targets(followed: FollowedLog) -> list[str]:
    return [json.loads(line)["target"] for line in followed.new_lines()]


def test_several_rotations_between_two_looks(log: Path, followed: FollowedLog) -> None:
    write(log, "/d", "/e", "/f", max_bytes=1)
    assert new_targets(followed) == ["/d", "/e", "/f"]
    assert new_targets(followed) == []
    write(log, "/g", "/h", max_bytes=1)
    write(log, "/i")
    assert new_targets(followed) == ["/g", "/h", "/i"]


def test_a_file_that_was_deleted_ends_no_following(log: Path, followed: FollowedLog) -> None:
    # Older than the followed file, and no longer rotated.
    log.with_name("audit.log.4").write_bytes(log.read_bytes())
    write(log, "/d", "/e", "/f", "/g", "/h", max_bytes=1)
    assert new_targets(followed) == ["/e", "/f", "/g", "/h"]


def test_a_file_that_is_missing_during_a_rotation_hides_no_other(
    log: Path, followed: FollowedLog
) -> None:
    write(log, "/d", "/e", "/f", max_bytes=1)
    for number in (3, 2):
        log.with_name(f"audit.log.{number}").replace(log.with_name(f"audit.log.{number + 1}"))
    assert new_targets(followed) == ["/d", "/e", "/f"]
