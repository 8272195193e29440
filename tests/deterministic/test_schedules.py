"""Seeded schedules of faults on complete daemons; `python -m tests.deterministic` runs thousands.

In processes of their own: on all cores, and with the hashes under which a seed replays.
"""

import ast
import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from tests.support.time.waiting import eventually

SCHEDULES = 300
FEW_SCHEDULES = 8
# The schedules take minutes of processor time, however many share the processors.
HANG_S = 3_000


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.deterministic", "--json", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.stdout, done.stderr[-2000:]
    row: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == bool(row["violations"])
    return row


def test_a_fault_of_the_suite_is_a_finding_of_its_seed_and_the_others_go_on() -> None:
    program = """
from tests.deterministic import run, schedule

async def fails(self):
    if self._seed == 1:
        raise KeyError("of the suite")

schedule.Schedule._run = fails
print([outcome.violations for outcome in run.run(0, 3, 1, is_bar=False).outcomes])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, third = ast.literal_eval(done.stdout)
    assert (first, third) == ((), ())
    assert second[0].startswith("failed: ")
    assert "KeyError: 'of the suite'" in second[0]


@pytest.mark.timeout(HANG_S)
def test_a_few_schedules_break_no_invariant() -> None:
    row = run("--schedules", str(FEW_SCHEDULES))
    assert row["violations"] == []
    assert row["schedules"] == FEW_SCHEDULES
    assert row["steps"] >= 200 * FEW_SCHEDULES
    assert row["answers"]["produce done"] > 0
    assert row["answers"]["rollout done"] > 0


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
def test_nothing_that_must_never_be_false_is_false() -> None:
    row = run("--schedules", str(SCHEDULES))
    assert row["violations"] == []
    assert row["schedules"] == SCHEDULES
    assert row["steps"] >= 200 * SCHEDULES
    assert "I9" in row["checked"]
    assert row["answers"]["produce done"] > 10 * SCHEDULES
    for done in ("rollout", "restarted", "drain", "approve", "abort"):
        assert row["answers"][f"{done} done"] > 0
    # The full run of 5,000 schedules must reach each cut point 50 times.
    assert row["coverage_min"] >= 50 * SCHEDULES / 5_000


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
def test_a_seed_replays_exactly() -> None:
    assert len({run("--schedules", "3", "--seed", "7", "--jobs", "1")["trace"] for _ in "12"}) == 1


async def test_a_killed_run_leaves_no_process_that_works_on() -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.deterministic", "--schedules", "5000", "--jobs", "2"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        works = psutil.Process(running.pid)
        await eventually(lambda: len(works.children()) == 2, what="two processes")
        children = works.children()
    finally:
        running.kill()
        await running.wait()
    await eventually(
        lambda: not any(is_alive(child) for child in children), what="no process is left"
    )


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
