"""Pulsar's own strategy classes, asked by `Decisions.java`."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.pulsar.harness.cases import Json
from tests.support.pulsar.distribution import Distribution

_PROGRAM: Final = Path(__file__).with_name("Decisions.java")
_MOST_S: Final = 600


def decided(cases: Iterable[Json], pulsar: Distribution) -> list[Any]:
    """What the classes of a release decide, case by case."""
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    # Given as a source file, Java compiles it in memory: nothing has to be built or kept.
    command = [str(pulsar.java), "-Xmx512m", "-cp", pulsar.class_path, str(_PROGRAM)]
    answered = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=_MOST_S, check=False
    )
    if answered.returncode != 0:
        raise AssertionError(f"{_PROGRAM.name} failed:\n{answered.stderr[-4000:]}")
    return [json.loads(line) for line in answered.stdout.splitlines()]
