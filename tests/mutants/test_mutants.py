"""The schedules see the breaks that they must see, and the runner says what has seen a mutant."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import judge_all
from tests.mutants.mutant import Mutant, Replace, Suite, unit
from tests.support.time.waiting import eventually

# The schedules take minutes of processor time, however many share the processors.
HANG_S: Final = 3_000
BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
# In a quick run, too.
QUICK: Final = {"elect-anybody"}
SLOW: Final = {
    *("ask-configuration-always", "commit-alone", "drop-epoch-check", "end-with-configuration"),
    *("forget-reclaim-grace", "miss-configuration", "no-ping-thread", "no-watchdog"),
    "resend-blindly",
    *("skip-ephemeral-owner", "skip-ring-check", "steal-nodes", "unfenced-controller"),
    *("trust-pongs", "unnumbered-calls"),
}
# Survived once.
ONCE_UNSEEN: Final = (
    "lease-counted-from-receipt",
    "handshake-taken-as-sent-now",
    "split-command-unfenced",
    "lock-known-by-session-alone",
    "release-without-the-record",
    "acquire-without-the-session-epoch",
    "acquire-without-catching-up",
    "session-closed-while-served",
    "clock-stands-during-suspend",
)
HARMLESS: Final = Replace(
    "broker_ctl/core/machines/lease.py",
    "return min(now_s, turn_s + self.limit_s)",
    "return min(turn_s + self.limit_s, now_s)",
)
FEW: Final = unit("core/machines/test_lease.py")


def judged(*mutants: Mutant) -> dict[str, dict[str, Any]]:
    found = judge_all(mutants, os.cpu_count() or 1, lambda _: None)
    return {judgement.mutant.name: judgement.to_row() for judgement in found}


@pytest.mark.timeout(HANG_S)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(QUICK | SLOW)
    ],
)
def test_schedules_see_a_mutant(name: str) -> None:
    row = judged(BY_NAME[name].with_suites({"schedules"}))[name]
    assert not row["survived"], row


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
def test_what_survived_once_is_seen() -> None:
    rows = judged(*(BY_NAME[name].with_suites({"unit", "scenarios"}) for name in ONCE_UNSEEN))
    # Rows say whether a suite saw nothing, or what it saw fails without the mutant too.
    assert [row for row in rows.values() if row["survived"]] == []


@pytest.mark.slow
def test_a_harmless_edit_survives_and_a_test_that_fails_either_way_sees_nothing(
    tmp_path: Path,
) -> None:
    failing = tmp_path / "test_it.py"
    failing.write_text("def test_it() -> None:\n    assert False\n")
    rows = judged(
        Mutant("harmless", "I12", (HARMLESS,), (FEW,)),
        Mutant("unproven", "I12", (HARMLESS,), (Suite("unit", (str(failing),)),)),
    )
    assert [rows[name]["survived"] for name in ("harmless", "unproven")] == [True, True]
    (few,) = rows["harmless"]["suites"]
    assert few["by"] == ""
    assert few["runs"] > 1
    (failed,) = rows["unproven"]["suites"]
    assert failed["by"].endswith("::test_it")
    assert failed["also_without_mutant"]


@pytest.mark.slow
def test_the_command_says_which_suite_saw_a_mutant_and_how_soon() -> None:
    command = (sys.executable, "-m", "tests.mutants", "--json", "--jobs", "1")
    name = "lease-longer-by-the-margin"
    done = subprocess.run([*command, "--only", name], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    assert row["survivors"] == []
    (mutant,) = row["judged"]
    assert mutant["name"] == name
    assert mutant["suites"][0]["suite"] == "unit"
    assert mutant["suites"][0]["seen"]
    assert mutant["suites"][0]["runs"] > 0
    assert f"[1/1] {name}: seen" in done.stderr


@pytest.mark.slow
async def test_a_run_that_is_ended_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.mutants", "--only", "no-watchdog", "--suite", "schedules"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    works = psutil.Process(running.pid)
    await eventually(lambda: len(works.children(recursive=True)) > 1, what="a schedule runs")
    children = works.children(recursive=True)
    running.send_signal(signal.SIGTERM)
    await running.wait()
    await eventually(
        lambda: not any(child.is_running() for child in children), what="no process is left"
    )
    assert os.listdir(tmp_path) == []  # noqa: PTH208  # the loop has nothing else to do
