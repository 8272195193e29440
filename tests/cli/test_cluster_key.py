"""``broker-ctl cluster-key``."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.cluster_key import command
from broker_ctl.security.cluster_key import DERIVED, KeyFile


def run(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def keys_of(*words: object) -> list[str]:
    """The ids that a verb shows."""
    done = run(*words, "--output", "json")
    assert done.exit_code == 0, done.output
    found: list[str] = json.loads(done.stdout)["keys"]
    return found


def test_a_created_key_is_random_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for file in (one, other):
        done = run("create", file, "--output", "json")
        content = file.read_text(encoding="utf-8")
        ids = KeyFile.parse(content).ids
        assert (done.exit_code, json.loads(done.stdout)) == (0, {"file": str(file), "keys": ids})
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert content.strip() not in done.output
    assert one.read_bytes() != other.read_bytes()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("in use", encoding="utf-8")
    done = run("create", file)
    assert done.exit_code == 1
    assert "File exists" in done.output
    assert file.read_text(encoding="utf-8") == "in use"


def test_a_key_is_replaced_step_by_step(tmp_path: Path) -> None:
    file = tmp_path / "key"
    (old,) = keys_of("create", file)
    file.chmod(0o640)
    assert len(keys_of("add", file, "--dry-run")) == 2
    assert keys_of("show", file) == [old]
    _, new = keys_of("add", file)
    assert keys_of("promote", file, new, "--dry-run") == [new, old]
    assert keys_of("show", file) == [old, new]
    assert keys_of("promote", file, new) == [new, old]
    assert run("show", file).output == f"{new}  signs and verifies\n{old}  verifies\n"
    assert keys_of("remove", file, old, "--dry-run") == [new]
    assert keys_of("remove", file, old, "--force") == [new]
    assert keys_of("show", file) == [new]
    # A service reads it by its group, and nothing is left beside it.
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_cluster_goes_from_derived_keys_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    derived, new = keys_of("create", file, "--after-derived")
    assert derived == DERIVED
    assert keys_of("promote", file, new) == [new, DERIVED]
    assert keys_of("remove", file, DERIVED, "--force") == [new]


def test_a_key_is_not_removed_without_a_look_at_the_nodes(tmp_path: Path) -> None:
    file = tmp_path / "key"
    (old,) = keys_of("create", file)
    _, new = keys_of("add", file)
    keys_of("promote", file, new)
    done = run("remove", file, old)
    assert (done.exit_code, "--config" in done.output) == (2, True), done.output
    assert keys_of("show", file) == [new, old]


@pytest.mark.parametrize(
    ("verb", "content", "says"),
    [
        ("promote", None, "No such file"),
        ("promote", "", "holds no key"),
        ("promote", "not a key", "line 1: a key of 32"),
        ("promote", DERIVED, "no key has the id '0000'"),
        ("remove", DERIVED, "no key has the id '0000'"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    tmp_path: Path, verb: str, content: str | None, says: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    done = run(verb, file, "0000")
    assert done.exit_code == 1
    assert says in f"{done.output} {done.exception}"
    assert content is None or file.read_text(encoding="utf-8") == content
