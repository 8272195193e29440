"""What `tests/pulsar/run` does: bring Pulsar, run the marked tests, print the figures.

    tests/pulsar/run [--json] [--version 4.0.8|5.0.1] [--manager modular|extensible|...]
                     [--source zookeeper|admin] [PYTEST_ARGUMENT...]

With a version, a manager or a source it runs test_attached.py, which is for all of them. With
``--json`` standard output has one JSON object and nothing else; what the tests say goes to standard
error. The exit code is pytest's, or 2 where Pulsar cannot be had.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.pulsar.choice import MANAGER, SOURCE, VERSION, Choice, Manager, Source
from tests.support.pulsar.distribution import PulsarMissing, distribution

# The name of the file that the figures go to; tests/pulsar/conftest.py fills it. It does not begin
# as settings do: a daemon refuses one that it does not know.
FIGURES: Final = "PULSAR_TEST_FIGURES"
_MISSING: Final = 2
_OWN: Final = "tests/pulsar"
_MATRIX: Final = f"{_OWN}/test_attached.py"


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code."""
    wants, rest = _parser().parse_known_args(arguments)
    wants_json = wants.json
    asked = {VERSION: wants.version, MANAGER: wants.manager, SOURCE: wants.source}
    os.environ.update({name: value for name, value in asked.items() if value})
    if any(asked.values()) and not any(argument.startswith(_OWN) for argument in rest):
        rest.append(_MATRIX)
    choice = Choice.of_environment()
    try:
        pulsar = distribution(choice.version)
    except PulsarMissing as error:
        sys.stderr.write(f"{error}\n")
        return _MISSING
    with tempfile.TemporaryDirectory() as scratch:
        figures = Path(scratch, "figures.json")
        code = _run_pytest(rest, figures, sys.stderr.fileno() if wants_json else None)
        if wants_json:
            chosen = {"manager": choice.manager, "source": choice.source}
            found = {**_machine(pulsar.version), **chosen, "passed": code == 0, **_read(figures)}
            sys.stdout.write(json.dumps(found) + "\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{_OWN}/run", allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--version", default="", metavar="RELEASE")
    parser.add_argument("--manager", choices=list(Manager))
    parser.add_argument("--source", choices=list(Source))
    return parser


def _run_pytest(arguments: Sequence[str], figures: Path, output: int | None) -> int:
    # One process: all tests share one cluster, which takes both cores of a small machine.
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "pulsar", *arguments]
    if not any(argument.startswith(_OWN) for argument in arguments):
        command.append(_OWN)
    environment = {**os.environ, FIGURES: str(figures)}
    return subprocess.run(command, check=False, stdout=output, env=environment).returncode


def _machine(version: str) -> dict[str, Any]:
    return {"pulsar": version, "cores": len(os.sched_getaffinity(0))}


def _read(figures: Path) -> dict[str, Any]:
    if not figures.exists():
        return {}
    read: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
