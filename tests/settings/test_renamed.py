"""Keys of our own that were renamed: for one release the old name does what the new one does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import main
from broker_ctl.settings.compat.deprecated import RENAMED
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.sources import load, read, with_dynamic
from tests.support.daemon.wired_settings import WIRED

CHANGED = {row.key: row.value for row in WIRED}
renames = pytest.mark.parametrize(("old", "new"), RENAMED.items())
dynamic_renames = pytest.mark.parametrize(
    ("old", "new"),
    [(old, new) for old, new in RENAMED.items() if DECLARATIONS[new].setting.is_dynamic],
)


def from_file(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "broker.conf"
    file.write_text(text, encoding="ascii")
    return load(file, {}, [])


@renames
@pytest.mark.parametrize("source", ["file", "environment", "--set"])
def test_the_old_key_means_the_new_one(tmp_path: Path, old: str, new: str, source: str) -> None:
    text = CHANGED[new]
    by_source: dict[str, Callable[[], Settings]] = {
        "file": lambda: from_file(tmp_path, f"{old}={text}\n"),
        "environment": lambda: load(None, {f"BROKER_CTL_{old}": text}, []),
        "--set": lambda: load(None, {}, [f"{old}={text}"]),
    }
    found = by_source[source]()
    assert found.value(new) == load(None, {}, [f"{new}={text}"]).value(new) != Settings().value(new)
    assert found.origin(new).startswith(source if source != "file" else str(tmp_path))


@renames
def test_the_new_key_counts_where_one_source_has_both(old: str, new: str) -> None:
    usual = Settings().text(new) or "0"
    reading = read(None, {}, [f"{new}={CHANGED[new]}", f"{old}={usual}"])
    assert reading.settings == load(None, {}, [f"{new}={CHANGED[new]}"])
    (warning,) = reading.warnings
    message = f"without effect, as the new key is given too; the key is called {new}"
    assert str(warning) == f"--set: {old}: {message}"


@renames
def test_the_old_key_in_a_later_source_beats_the_new_one_in_the_file(
    tmp_path: Path, old: str, new: str
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{new}={Settings().text(new)}\n", encoding="ascii")
    found = load(file, {}, [f"{old}={CHANGED[new]}"])
    assert found == load(None, {}, [f"{new}={CHANGED[new]}"])
    emptied = load(None, {f"BROKER_CTL_{new}": CHANGED[new]}, [f"{old}="])
    assert emptied == Settings()


# Any text is a list of names.
@pytest.mark.parametrize(
    ("old", "new"),
    [(old, new) for old, new in RENAMED.items() if not isinstance(Settings().value(new), tuple)],
)
def test_a_bad_text_is_refused_under_the_old_name(old: str, new: str) -> None:
    (problem,) = read(None, {}, [f"{old}=soon"]).problems
    assert (problem.key, problem.value) == (old, "soon")
    assert DECLARATIONS[new].kind.allowed in problem.message


@renames
def test_config_check_names_the_new_key(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"metadataStoreUrl=zk:localhost:2181\n{old}={CHANGED[new]}\n", encoding="ascii")
    words = ["config", "check", str(file)]
    table = CliRunner().invoke(main, words)
    assert table.exit_code == 0
    message = f"deprecated; the key is called {new}"
    assert f"warning: {file}:2: {old}: {message}\n" in table.output
    seen = json.loads(CliRunner().invoke(main, [*words, "--output", "json"]).output)
    row = {"origin": f"{file}:2", "key": old, "value": "", "message": message}
    assert row in seen["warnings"]


@renames
def test_the_new_key_causes_no_warning(old: str, new: str) -> None:
    assert read(None, {}, [f"{new}={CHANGED[new]}"]).warnings == ()
    assert old not in DECLARATIONS


def test_a_slip_in_an_old_key_is_answered_with_the_new_one() -> None:
    (problem,) = read(None, {}, ["stateQueueMaxInstruction=5"]).problems
    assert problem.message == "unknown key; zkQueueMaxInstructions is meant"


@dynamic_renames
def test_an_override_under_the_old_key_holds(old: str, new: str) -> None:
    text = CHANGED[new]
    settings, problems = with_dynamic(Settings(), {old: text})
    assert problems == ()
    assert settings == load(None, {}, [f"{new}={text}"])


def test_the_planners_keys_are_dynamic_under_both_names() -> None:
    dynamic = [old for old, new in RENAMED.items() if DECLARATIONS[new].setting.is_dynamic]
    assert len(dynamic) == 7
