"""Ingest is killed at random points, again and again, and then left to finish.

    python -m tests.pipeline.killed_ingest --kills 10 --seed 1
    python -m tests.pipeline.killed_ingest --kills 10 --seed 2 --whom java
    python -m tests.pipeline.killed_ingest --kills 10 --format iceberg

Processes are real, and so are the signals: SIGKILL, to all of them at once, to Python alone, or to
Java alone; whose Java was killed must end by itself with exit code 1 and a sentence that says so.
Then every line id must stand in the tables as often as the segments have rows for it: DuckDB reads
both; tables of Iceberg and Delta are read by Spark, in the environment that
tests/pipeline/open_tables/run makes. Prints one JSON object; the exit code is 1 where something was
lost or repeated, or an end was unclear.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from broker_ctl.pipeline.settings import Format
from tests.support.pipeline.ingest_process import Ingest, differences
from tests.support.pipeline.segment_files import small_history

# Each segment is a batch: ingest must not be through before the last kill.
_SEGMENTS_OF_A_KILL = 6
_FEWEST_SEGMENTS = 12
_DEADLINE_S = 1_800.0
_POLL_S = 0.1
_LATEST_S = 8.0
_WHOM = ("all", "python", "java")
_CLEAR = "Error: Java has ended"


def killed_ingest(
    directory: Path, kills: int, seed: int, whom: Sequence[str], form: Format = Format.PARQUET
) -> dict[str, Any]:
    """Kill so often one of these, finish, and count."""
    draw = random.Random(seed)
    ingest = Ingest(directory, form)
    segments = max(_FEWEST_SEGMENTS, kills * _SEGMENTS_OF_A_KILL)
    expected = small_history(ingest.history, segments)
    points: list[dict[str, Any]] = []
    while len(points) < kills:
        point = _one_kill(draw, whom, ingest)
        if point is None:
            break
        points.append(point)
    done = ingest.start()
    _, complaint = done.communicate(timeout=_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(complaint.decode())
    return {
        "format": form,
        "kills": len(points),
        "points": points,
        **differences(expected, ingest.found()),
        "unclear": [each["said"] for each in points if not each["is_clear"]],
    }


def _one_kill(draw: random.Random, among: Sequence[str], ingest: Ingest) -> dict[str, Any] | None:
    """One attempt, until it is killed; None: it was through before that."""
    before = ingest.files()
    process = ingest.start()
    while process.poll() is None and ingest.files() == before:
        _pause(process, _POLL_S)
    # It is at work now: a batch takes a second or more.
    after_s, whom = draw.uniform(0.0, _LATEST_S), draw.choice(among)
    _pause(process, after_s)
    if process.poll() is None:
        java = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        victims = {"all": [process.pid, *java], "python": [process.pid], "java": java}[whom]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        _, complaint = process.communicate(timeout=_DEADLINE_S)
        # Java notices by itself that Python is gone.
        psutil.wait_procs([psutil.Process(pid) for pid in java if psutil.pid_exists(pid)], 30)
        said = complaint.decode()
        return {
            "after_s": round(after_s, 1),
            "whom": whom,
            "batches": ingest.batches(),
            "exit_code": process.returncode,
            "said": said,
            "is_clear": whom != "java" or _is_clear(process.returncode, said),
        }
    return None


def _is_clear(code: int, said: str) -> bool:
    has_reason = any(line.startswith(_CLEAR) for line in said.splitlines())
    return code == 1 and has_reason and "Traceback" not in said


def _pause(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait ``seconds``, or until the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def main() -> None:
    """Kill, count, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whom", action="append", choices=_WHOM, help="all of them; repeatable")
    parser.add_argument("--format", choices=[each.value for each in Format], default="parquet")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        whom = arguments.whom or _WHOM
        form = Format(arguments.format)
        found = killed_ingest(Path(directory), arguments.kills, arguments.seed, whom, form)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(1 if any(found[name] for name in ("lost", "unknown", "wrong", "unclear")) else 0)


if __name__ == "__main__":
    main()
