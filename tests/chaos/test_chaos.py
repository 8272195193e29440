"""The command itself, short: a few kinds of faults, an outage, and an early end."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker_ctl.daemon.lifecycle import exits
from tests.support.rules.processes import is_gone
from tests.support.time.waiting import eventually

ROOT = Path(__file__).parents[2]
HANG_S = 240
SHORT = "session_expired,reply_eaten,links_cut,daemon_paused_0.3,broker_process_killed"


# What Python runs before all else, in every process that finds it.
ASK_ALWAYS = """
from broker_ctl.store.cached_values import LastRead

async def ask(self, path):
    return await self.cache.get(path)

LastRead.get = ask
"""


async def start(*arguments: str, environ: Mapping[str, str] | None = None) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", *arguments),
        cwd=ROOT,
        env=None if environ is None else {**os.environ, **environ},
        stdout=PIPE,
        stderr=PIPE,
    )


async def run_chaos(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object, and what was printed on stderr."""
    process = await start(*arguments, "--json", environ=environ)
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
    assert process.returncode is not None
    return process.returncode, json.loads(out), said.decode()


@pytest.mark.slow
async def test_a_short_run_finds_nothing_false_with_either_guard() -> None:
    code, found, said = await run_chaos("--seconds", "12", "--seed", "7", "--faults", SHORT)
    assert found["violations"] == [], said
    assert code == 0
    assert sum(found["faults"].values()) >= 2
    assert found["acquisitions"] >= 32
    assert found["acts"] > 0
    assert "I9" in found["checked"]
    assert found["committed_records"] > 0
    assert found["leader_elections"] >= 8
    assert found["lookups"]["statuses"]["200"] == sum(found["lookups"]["hops"].values()) > 0
    assert found["recovery_s"]["max"] <= found["recovery_s"]["bound"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["configuration_cut", "configuration_expired", "configuration_killed"]
)
async def test_all_goes_on_whatever_happens_to_the_configuration_store(kind: str) -> None:
    code, found, said = await run_chaos("--seconds", "1", "--guard", "lease", "--faults", kind)
    assert found["violations"] == [], said
    assert code == 0
    assert found["faults"][kind] >= 1
    assert found["lookups"]["statuses"]["200"] > 0


@pytest.mark.slow
async def test_servers_restored_from_a_copy_end_daemons_and_tokens_go_up() -> None:
    code, found, said = await run_chaos("--restored", "1")
    assert found["violations"] == [], said
    assert code == 0
    assert found["exit_codes"] == [exits.HISTORY_BEHIND] * 3


@pytest.mark.slow
async def test_daemons_that_always_ask_the_configuration_store_are_found(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ASK_ALWAYS)
    environ = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    lost = ("--seconds", "1", "--guard", "lease", "--faults", "configuration_killed")
    code, found, said = await run_chaos(*lost, environ=environ)
    assert code == 1
    assert any("configuration_killed" in one for one in found["violations"]), said


# The thread sends nothing, or for ever.
NO_PINGS = """
from broker_ctl.store.zookeeper.liveness import PingThread

PingThread.look = lambda _: None
"""
NO_WATCHDOG = """
from broker_ctl.core.machines.lease import LoopWatchdog

LoopWatchdog.allows_ping = lambda *_: True
"""


@pytest.mark.slow
async def test_busy_loops_keep_their_sessions_and_dead_ones_do_not() -> None:
    kinds = "loop_busy,loop_collected,loop_dead"
    code, found, said = await run_chaos("--seconds", "18", "--guard", "lease", "--faults", kinds)
    assert found["violations"] == [], said
    assert code == 0
    assert found["faults"].keys() == set(kinds.split(","))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "kind", "what"),
    [
        (NO_PINGS, "loop_busy", "was busy and lost its session"),
        (NO_WATCHDOG, "loop_dead", "was dead and kept its session"),
    ],
    ids=["no pings", "no watchdog"],
)
async def test_daemons_that_treat_busy_and_dead_loops_alike_are_found(
    broken: str, kind: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(broken)
    environ = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    held = ("--seconds", "1", "--guard", "lease", "--faults", kind)
    code, found, said = await run_chaos(*held, environ=environ)
    assert code == 1
    assert any(one.startswith("lease: I12") and what in one for one in found["violations"]), said


@pytest.mark.slow
async def test_daemons_wait_for_servers_that_are_gone_and_one_with_a_limit_ends() -> None:
    code, found, said = await run_chaos("--outage", "12")
    assert found["violations"] == [], said
    assert code == 0
    assert all(reason.startswith("503") for reason in found["readyz"])
    assert found["exit_code_with_limit"] == exits.RETRIES_USED_UP


@pytest.mark.slow
async def test_an_early_end_leaves_no_process_behind() -> None:
    process = await start("--seconds", "60", "--faults", "daemon_paused_2.0", "--guard", "lease")
    assert process.stderr is not None
    # Servers of two stores and three daemons start before.
    async with asyncio.timeout(HANG_S):
        while b"daemon_paused" not in await process.stderr.readline():
            assert process.returncode is None
    children = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
    assert len(children) >= 9  # servers, daemons, broker processes
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(HANG_S):
        await process.communicate()
    assert process.returncode == 130
    await eventually(lambda: all(map(is_gone, children)), what="all to be gone")


@pytest.mark.parametrize("arguments", [("--faults", "no_such_kind"), ("--guard", "hope")])
async def test_a_wrong_value_on_the_command_line_is_named(arguments: tuple[str, ...]) -> None:
    process = await start(*arguments)
    _, said = await process.communicate()
    assert process.returncode == 2
    assert arguments[1] in said.decode()
