"""Two trees by turns: real ones, in a repository of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.machine.compare import compared, figures

COMPARE = Path(__file__).parent / "compare.py"


def git(root: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(root), *own, *words], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A benchmark that prints a constant of the package, and one more each time it is run."""
    root = tmp_path / "repository"
    (root / "broker_ctl").mkdir(parents=True)
    (root / "tests" / "benchmarks").mkdir(parents=True)
    (root / "tests" / "benchmarks" / "one.py").write_text(
        "import json, sys\nfrom broker_ctl import RATE\n"
        "print(json.dumps({'deep': {'rate_s': RATE}, 'same': 1.0, 'asked': sys.argv[1:]}))\n"
    )
    (root / "broker_ctl" / "__init__.py").write_text("RATE = 100\n")
    git(root, "init", "--quiet")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    (root / "broker_ctl" / "__init__.py").write_text("RATE = 110\n")
    return root


def compare(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(COMPARE), "HEAD", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_each_tree_runs_its_own_package_by_turns(root: Path) -> None:
    done = compare(root, "one", "--rounds", "3", "--json", "--out", "rounds", "--", "--fast")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["rounds"] == 3
    assert shown["figures"] == [
        {
            "figure": "deep.rate_s",
            "base": 100.0,
            "here": 110.0,
            "ratio": 1.1,
            "range": [1.1, 1.1],
            "differs": True,
        },
        {
            "figure": "same",
            "base": 1.0,
            "here": 1.0,
            "ratio": 1.0,
            "range": [1.0, 1.0],
            "differs": False,
        },
    ]
    rows = [json.loads(line) for line in (root / "rounds").read_text().splitlines()]
    assert [row["tree"] for row in rows] == ["base", "here", "here", "base", "base", "here"]
    assert all(row["load_before"] >= 0 for row in rows)
    assert rows[0]["printed"]["asked"] == ["--json", "--fast"]
    listed = ["git", "-C", str(root), "worktree", "list"]
    left = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert len(left.splitlines()) == 1, "the tree of the base is gone"


def test_people_get_a_table(root: Path) -> None:
    done = compare(root, "one", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.split() == [
        "deep.rate_s",
        "100",
        "110",
        "1.100",
        "(1.100",
        "to",
        "1.100)",
        "differs",
    ]
    assert last == "figure, base, here, ratio (range of 1: 0% sure)"


def test_a_run_that_fails_is_named(root: Path) -> None:
    (root / "tests" / "benchmarks" / "one.py").write_text("raise SystemExit(3)\n")
    done = compare(root, "one", "--rounds", "1")
    assert done.returncode == 1
    assert "round 0, here: " in done.stderr
    assert compare(root, "one", "--rounds", "0").returncode == 2


def test_figures_are_found_at_any_depth_and_flags_are_none() -> None:
    found = dict(figures({"a": [1, {"b": 2.5}], "busy": True, "name": "x"}))
    assert found == {"a[0]": 1.0, "a[1].b": 2.5}
    (one,) = compared([{"x": 0, "y": 1}], [{"x": 1}])
    assert (one.name, one.ratios, one.differs) == ("x", (), False)
