"""The workflows: what they may do, what they run, and that their actions cannot change.

`deploy/tests/release` makes a whole release without a network.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE: Final = ROOT / ".github" / "workflows" / "release.yml"
SCRIPTS: Final = sorted(
    path for path in (ROOT / "deploy" / "tests").iterdir() if os.access(path, os.X_OK)
)


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(path).values():
        yield from job.get("steps", ())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_its_commit_and_no_secret_is_used(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)(.*)", text)
    for action, comment in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "secrets." not in text
    assert "pull_request_target" not in text
    # What others choose is never part of a script.
    for step in steps(path):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_that_publishes_nothing_may_only_read(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] in ({}, {"contents": "read"})
    granted = {name: job.get("permissions", {}) for name, job in jobs(path).items()}
    may_write = {name for name, each in granted.items() if "write" in each.values()}
    assert may_write == ({"image", "publish"} if path == RELEASE else set())


def test_a_release_is_judged_and_built_before_anything_is_published() -> None:
    release = jobs(RELEASE)
    assert release["judge"]["uses"] == "./.github/workflows/ci.yml"
    for name in ("image", "publish"):
        assert {"judge", "planted-breaks", "build"} <= set(release[name]["needs"])
        assert release[name]["if"] == "github.ref_type == 'tag'"
    # Not a part of them, as the judge.
    assert release["planted-breaks"]["steps"][-1]["run"] == "python -m tests.mutants"
    built = [step["run"] for step in release["build"]["steps"] if "run" in step]
    assert any(run.startswith("deploy/release ${TAG:+--tag") for run in built)
    attested = [step for step in steps(RELEASE) if "attest" in step.get("uses", "")]
    assert len(attested) == 2


def test_each_script_of_an_artefact_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "how-to" / "contribute.md").read_text()
    assert len(SCRIPTS) >= 6
    for script in SCRIPTS:
        assert f"`deploy/tests/{script.name}`" in guide


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--check"], 0, ""),
        (["--check", "--tag", "v99.0.0"], 1, "the tag is v99.0.0, and pyproject.toml has"),
        (["--tag"], 2, "--tag needs one, as v0.1.0"),
        (["--nope"], 2, "--nope: no such option"),
    ],
)
def test_a_release_that_does_not_agree_is_refused(
    arguments: list[str], code: int, message: str
) -> None:
    done = subprocess.run(
        [ROOT / "deploy" / "release", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert message in done.stderr
