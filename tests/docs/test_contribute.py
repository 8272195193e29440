"""One set of commands: the tasks, the guide, the hooks, the workflow and `.ci/run` agree on it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from broker_ctl.settings.strategies import PLACEMENT_STRATEGIES, SHEDDING_STRATEGIES
from tests.support.rules.families import for_each

ROOT: Final = Path(__file__).parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text()
GUIDE: Final = (ROOT / "docs" / "how-to" / "contribute.md").read_text()
README: Final = (ROOT / "README.md").read_text()
CI: Final = (ROOT / ".ci" / "run").read_text()
WHERE: Final = (ROOT / "CONTRIBUTING.md").read_text()
HOOKS: Final = ROOT / ".pre-commit-config.yaml"
PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: Final[dict[str, Any]] = PYPROJECT["project"]

# There a test that a missing program would skip fails, and screenshots are kept.
_FOR_REVIEWERS: Final = re.compile(r" --require-\S+| --screenshots=\S+")


def tasks() -> dict[str, str]:
    """The tasks of the Makefile, with what each depends on and says of itself."""
    return dict(re.findall(r"^([a-z-]+):(.*)$", MAKEFILE, re.MULTILINE))


def commands_of(task: str) -> list[str]:
    """What a task runs in the environment, by the names of the programs."""
    body = re.search(rf"^{task}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return re.findall(r"^\t\$\(BIN\)(.+)$", body[1], re.MULTILINE) if body else []


def parts_of_all() -> list[str]:
    return tasks()["all"].partition("##")[0].split()


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def hooks() -> list[dict[str, Any]]:
    return [hook for repository in yaml_of(HOOKS)["repos"] for hook in repository["hooks"]]


def programs(extra: str) -> set[str]:
    """The programs that the packages of an extra install."""
    return {
        file.name
        for name in PROJECT["optional-dependencies"][extra]
        for file in distribution(name).files or ()
        if file.parent.name == "bin"
    }


def test_every_task_has_a_description_and_is_phony() -> None:
    assert [task for task, said in tasks().items() if "## " not in said] == []
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony.split() == list(tasks())


def test_the_guide_says_what_each_task_runs() -> None:
    rows = dict(re.findall(r"^\| `make ([a-z-]+)` \| (`.*`) \|$", GUIDE, re.MULTILINE))
    said = {task: re.findall(r"`([^`]+)`", row) for task, row in rows.items()}
    assert said == {task: commands_of(task) for task in ("format", *parts_of_all())}


def test_the_judgement_on_a_checkout_is_all_tasks() -> None:
    typed = re.findall(r'^"\$venv/bin/((?!pip)[\w-]+".*)$', CI, re.MULTILINE)
    plain = [_FOR_REVIEWERS.sub("", each.replace('"', "", 1)) for each in typed]
    here = [command for task in parts_of_all() for command in commands_of(task)]
    assert [each.replace('"$venv/site"', "docs/_build") for each in plain] == here


def test_the_test_task_is_the_command_of_the_readme() -> None:
    (typed,) = re.findall(r"&& \.venv/bin/(pytest.*)$", README, re.MULTILINE)
    assert commands_of("test") == [typed]


def test_the_environment_is_installed_as_for_the_judgement() -> None:
    (here,) = re.findall(r"\.venv/bin/pip install (-c .*)$", MAKEFILE, re.MULTILINE)
    (there,) = re.findall(r"/pip\" install .* (-c .*)$", CI, re.MULTILINE)
    assert here == there


def test_the_hooks_are_a_valid_configuration() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(HOOKS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_hook_comes_from_elsewhere() -> None:
    assert {each["repo"] for each in yaml_of(HOOKS)["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks()} == {"system"}


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: str(hook["id"]))
def test_a_hook_runs_a_pinned_program_as_a_task_does(hook: dict[str, Any]) -> None:
    program, *rest = hook["entry"].removesuffix(" --force-exclude").split()
    assert program in programs("test")
    judged = [each for task in ("lint", "types", "contracts") for each in commands_of(task)]
    assert any(each.split()[: len(rest) + 1] == [program, *rest] for each in judged)


def test_every_judgement_without_tests_has_a_hook() -> None:
    entered = {hook["entry"].split()[0] for hook in hooks()}
    judged = {each for task in ("lint", "types", "contracts") for each in commands_of(task)}
    assert entered == {each.split()[0] for each in judged}


def test_the_workflow_runs_the_judgement_on_what_the_project_needs() -> None:
    (job,) = yaml_of(ROOT / ".github" / "workflows" / "ci.yml")["jobs"].values()
    steps = job["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    options = {step["uses"].partition("@")[0]: step.get("with", {}) for step in steps[:-1]}
    assert "actions/checkout" in options
    python = options["actions/setup-python"]["python-version"]
    assert f">={python}" == PROJECT["requires-python"]
    java = options["actions/setup-java"]
    assert (java["distribution"], java["java-version"]) == ("temurin", "17")


def test_a_quick_run_leaves_out_slow_tests_and_has_tests_of_each_subject() -> None:
    default = "-m 'not pulsar and not slow and not open_tables'"
    assert default in PYPROJECT["tool"]["pytest"]["ini_options"]["addopts"]
    files = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    folders = {path.parent for path, text in files.items() if "pytest.mark.slow" in text}
    assert folders
    for folder in folders:
        assert any(
            re.search(
                r"^pytestmark = .*pytest\.mark\.(slow|pulsar|open_tables)", text, re.MULTILINE
            )
            is None
            for path, text in files.items()
            if path.parent == folder
        ), f"all of {folder.name} is slow"


@for_each(
    "name", sorted(set(re.findall(r"`((?:broker_ctl|config|deploy|docs|tests)/[^`*]*)`", WHERE)))
)
def test_a_place_that_contributors_are_sent_to_exists(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_public_groups_of_entry_points_are_those_of_the_settings() -> None:
    named = set(re.findall(r"`(broker_ctl\.[a-z_]+)`", WHERE))
    assert named == {SHEDDING_STRATEGIES.group, PLACEMENT_STRATEGIES.group}
