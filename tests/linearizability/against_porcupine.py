"""The judgements of porcupine, a linearizability checker that others rely on."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.linearizability.random_histories import History

_FOLDER: Final = Path(__file__).parent / "porcupine"
_HANG_S: Final = 1_200


def missing_tool() -> str:
    """How to get what is not installed; empty: it is there."""
    return "" if shutil.which("go") else "go not found: apt install golang-go"


def judge(histories: Iterable[History]) -> list[bool]:
    """Whether each is linearizable. The module and its one dependency are fetched if needed."""
    lines = "".join(json.dumps(one.to_row()) + "\n" for one in histories)
    done = subprocess.run(
        ["go", "run", "."],
        cwd=_FOLDER,
        input=lines,
        capture_output=True,
        text=True,
        timeout=_HANG_S,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"porcupine:\n{done.stderr}")
    return [line == "true" for line in done.stdout.splitlines()]
