"""No server outlives its parent."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from broker_ctl.lab.embedded import guard
from tests.support.rules.processes import is_gone
from tests.support.time.waiting import eventually

PARENT = """
import asyncio, sys
from pathlib import Path
from broker_ctl.lab.embedded.ensemble import Ensemble

async def main():
    async with Ensemble.of(Path(sys.argv[1])) as ensemble:
        print(ensemble.servers[0].pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_servers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    try:
        pid = int(await parent.stdout.readline())
        assert not is_gone(pid)
    finally:
        parent.kill()
        await parent.wait()
    await eventually(lambda: is_gone(pid), what="the server is gone")


def test_a_guard_whose_parent_is_gone_already_starts_nothing() -> None:
    not_the_parent = os.getppid()
    answer = subprocess.run(
        [sys.executable, "-I", "-S", guard.__file__, str(not_the_parent), "/bin/echo", "started"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert "parent process is gone" in answer.stderr
