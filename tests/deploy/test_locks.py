"""Lock files: every file of every dependency by its hash, and a bill of materials from them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "deploy" / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMES = ["run", "build", *EXTRAS]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(encoding="ascii"), re.MULTILINE)
    return {normal(name): version for name, version in found}


def direct(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\s\[<>=!~;]", one, maxsplit=1)[0]) for one in requirements}


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_the_versions_of_the_constraints_and_a_hash_for_each(name: str) -> None:
    path = LOCKS / f"{name}.txt"
    locked, allowed = pins(path), pins(ROOT / "deploy" / "constraints.txt")
    assert locked.items() <= allowed.items(), "run: deploy/locks/make"
    whole_lines = path.read_text(encoding="ascii").replace("\\\n", " ").splitlines()
    assert len(whole_lines) == len(locked)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}( |$)", line) for line in whole_lines)
    assert all(re.fullmatch(r"(--hash=)?[\w.:=-]+", one) for one in " ".join(whole_lines).split())


@pytest.mark.parametrize("name", ["run", *EXTRAS])
def test_a_lock_has_every_dependency_of_its_extra(name: str) -> None:
    wanted = direct([*PROJECT["dependencies"], *EXTRAS.get(name, ())])
    assert wanted <= pins(LOCKS / f"{name}.txt").keys(), "run: deploy/locks/make"
    assert pins(LOCKS / "run.txt").items() <= pins(LOCKS / f"{name}.txt").items()


def build(source: Path, hook: str, target: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'deploy/packaging'); import sbom_backend;"
        f"sbom_backend.{hook}(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, str(target)]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def unpacked_source(directory: Path) -> Path:
    """A source distribution of a copy of the project: a build leaves files behind."""
    copied = directory / "copied"
    for name in ("broker_ctl", "deploy"):
        shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copied / name)
    build(copied, "build_sdist", directory)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(directory / "unpacked", filter="data")
    (source,) = (directory / "unpacked").iterdir()
    return source


@pytest.mark.slow
def test_two_builds_of_one_source_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795191680")
    wheels: list[bytes] = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        source = unpacked_source(tmp_path / name)
        # A checkout has the times of its files from when it was made.
        os.utime(source / "pyproject.toml", (len(wheels), len(wheels)))
        build(source, "build_wheel", tmp_path / name)
        (wheel,) = (tmp_path / name).glob("*.whl")
        wheels.append(wheel.read_bytes())
    assert wheels[0] == wheels[1]


def test_a_wheel_names_what_a_daemon_is_made_of(tmp_path: Path) -> None:
    source = unpacked_source(tmp_path)
    # From the source distribution alone.
    build(source, "build_wheel", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if ".dist-info/sboms/" in one]
        bill = json.loads(archive.read(name))
        (record,) = [one for one in archive.namelist() if one.endswith("RECORD")]
        assert name in archive.read(record).decode()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/broker-ctl@{PROJECT['version']}"
    found = {normal(one["name"]): one["version"] for one in bill["components"]}
    assert found == pins(LOCKS / "run.txt")
    assert all(one["hashes"] for one in bill["components"])
