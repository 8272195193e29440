"""Each client measures in a fresh process of its own, which ends with its parent."""

import asyncio
import os
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import uvloop

from broker_ctl.codec import decode_object, encode
from broker_ctl.lab.embedded import guard

ROOT: Final = Path(__file__).resolve().parents[3]
_LIMIT_S: Final = 300.0


async def measured_apart(
    module: str, task: Mapping[str, Any], limit_s: float = _LIMIT_S
) -> dict[str, Any]:
    """Run ``module`` with ``task`` as its argument; the object that it prints.

    Raises:
        RuntimeError: it failed; what it has to say stands on stderr.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
        *(sys.executable, "-m", module, encode(task).decode()),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C at the terminal is for the parent.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}: {dict(task)}")
    return decode_object(answer)


def task_of_this_process() -> dict[str, Any]:
    """What `measured_apart` was given."""
    return decode_object(sys.argv[1])


def answer(found: Mapping[str, Any]) -> None:
    """What `measured_apart` returns."""
    sys.stdout.write(encode(dict(found)).decode())


def run_on_uvloop(work: Coroutine[Any, Any, Mapping[str, Any]]) -> Mapping[str, Any]:
    """As the daemon runs."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
