"""Runs Spin over the specification: makes the checker of one spec, runs it, reads what it says.

Spin generates a C program for a spec, and a C compiler builds it. The program searches all states
that the spec can reach, depth first, and leaves the steps to the first violation.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SPECS: Final = Path(__file__).parent / "spec"
_TOOLS: Final = ("spin", "gcc")
_STATES = re.compile(r"(\d+) states, stored")
_ERRORS = re.compile(r"errors: (\d+)")
_DEPTH: Final = 2_000_000
_HANG_S: Final = 1_800


@dataclass(frozen=True, slots=True)
class Run:
    """One search.

    Attributes:
        bounds: values of the spec's macros that bound its states.
        without: the mend or guard that is taken out; empty: the whole model.
    """

    name: str
    spec: str
    bounds: Mapping[str, int]
    without: str = ""

    @property
    def definitions(self) -> list[str]:
        """As options of Spin."""
        flags = [f"-D{self.without}"] if self.without else []
        return [f"-D{name}={value}" for name, value in self.bounds.items()] + flags


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a search.

    Attributes:
        story: the steps to the violation; empty if there is none.
    """

    run: Run
    states: int
    seconds: float
    story: Sequence[str]

    @property
    def is_violated(self) -> bool:
        return bool(self.story)

    @property
    def is_expected(self) -> bool:
        """The whole model holds, and each guard is needed."""
        return self.is_violated is bool(self.run.without)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run": self.run.name,
            "spec": self.run.spec,
            "bounds": dict(self.run.bounds),
            "without": self.run.without,
            "states": self.states,
            "seconds": round(self.seconds, 1),
            "violated": self.is_violated,
            "story": list(self.story),
        }


def missing_tools() -> str:
    """What is not installed, and how to install it; empty: all is there."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not found: apt install spin gcc libc6-dev" if missing else ""


def check(run: Run) -> Found:
    """Search all states of one run."""
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        at = Path(folder)
        shutil.copy(SPECS / run.spec, at / "model.pml")
        _call(at, "spin", "-a", *run.definitions, "model.pml")
        # A counterexample has the fewest steps; the whole model needs less memory.
        order = ["-DBFS"] if run.without else ["-DCOLLAPSE"]
        _call(at, "gcc", "-O2", "-w", "-DSAFETY", *order, "-o", "search", "pan.c")
        said = _call(at, "./search", "-n", *([] if run.without else [f"-m{_DEPTH}"]))
        states, errors = _STATES.search(said), _ERRORS.search(said)
        if states is None or errors is None or "max search depth too small" in said:
            raise RuntimeError(f"{run.name}: the search did not end:\n{said}")
        story: list[str] = []
        if int(errors[1]):
            trail = next(at.glob("*.trail")).name
            replay = _call(at, "spin", "-T", "-k", trail, *run.definitions, "model.pml")
            story = [line.strip() for line in replay.partition("spin:")[0].splitlines()]
            story += [line for line in replay.splitlines() if "failed assertion" in line]
    return Found(run, int(states[1]), time.perf_counter() - began_s, story)


def _call(at: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=at, capture_output=True, text=True, timeout=_HANG_S, check=False
    )
    # The search and the replay end with 0 at a violation, too; Spin and gcc name their errors.
    if done.returncode and not command[0].startswith("./"):
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout
