"""Runs a suite in a tree until something in it fails."""

import json
import re
import time
from dataclasses import dataclass
from typing import Any, Final

from tests.mutants.mutant import Suite
from tests.mutants.tree import Tree

# A test that hangs sees its mutant. No other test takes as long, even on a busy machine.
_HANG_S: Final = 90
# What hangs in a fixture or at the end of the process is not ended by pytest.
_SUITE_S: Final = 1_200
_SUMMARY: Final = re.compile(r"^=*\s*(\d+ .*) in [\d.]+s", re.MULTILINE)
_COUNTED: Final = re.compile(r"(\d+) (?:passed|failed|error)")
_SEEN: Final = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$", re.MULTILINE)
_PYTEST: Final = (
    *("-x", "-q", "-n", "0", "-rfE", "--no-header", "-p", "no:cacheprovider"),
    # The process that forks the runs has imported plugins before.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout", str(_HANG_S)),
)
HUNG: Final = "no end"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a suite said.

    Attributes:
        by: the test or the seed that failed; empty: nothing did.
        runs: tests or schedules until then, or in all.
        seconds: the same; the machine may have been busy.
    """

    by: str
    runs: int
    seconds: float


def run_suite(tree: Tree, suite: Suite) -> Outcome:
    """Run until the first failure."""
    began_s = time.monotonic()
    if suite.kind == "schedules":
        by, runs = _run_schedules(tree, suite.seed, suite.schedules)
    else:
        by, runs = _run_tests(tree, suite.paths)
    return Outcome(by, runs, round(time.monotonic() - began_s, 1))


def repeat(tree: Tree, suite: Suite, outcome: Outcome) -> Outcome:
    """Run what has failed once more, and nothing else."""
    if suite.kind == "schedules":
        again = Suite(suite.kind, seed=int(outcome.by.removeprefix("seed ")), schedules=1)
    elif outcome.by == HUNG:
        again = suite
    else:
        again = Suite(suite.kind, (outcome.by,))
    return run_suite(tree, again)


def _run_tests(tree: Tree, paths: tuple[str, ...]) -> tuple[str, int]:
    arguments = (*_PYTEST, "--basetemp", str(tree.scratch / "pytest"), *paths)
    status, said = tree.run("pytest", arguments, _SUITE_S)
    summaries = _SUMMARY.findall(said)
    runs = sum(map(int, _COUNTED.findall(summaries[-1]))) if summaries else 0
    if status == 0:
        return "", runs
    seen = _SEEN.findall(said)
    return (seen[0] if seen else HUNG), runs


def _run_schedules(tree: Tree, seed: int, count: int) -> tuple[str, int]:
    arguments = (
        *("--json", "--until-found", "--jobs", "1"),
        *("--seed", str(seed), "--schedules", str(count)),
    )
    status, said = tree.run("tests.deterministic", arguments, _SUITE_S)
    _, begin, row_text = said.rpartition('{"schedules"')
    if not begin:
        return (f"seed {seed}" if status else ""), 0
    row: dict[str, Any] = json.loads(begin + row_text)
    found = [violation["seed"] for violation in row["violations"]]
    return (f"seed {found[0]}" if found else ""), row["schedules"]
