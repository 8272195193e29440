"""The peer: an aiohttp application that does nothing but answer, in a process of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import uvloop
from aiohttp import web

from broker_ctl.codec import encode
from broker_ctl.lab.embedded import guard
from broker_ctl.lab.embedded.ports import LOOPBACK
from tests.benchmarks.store.processes import ROOT, task_of_this_process

_ROUTE: Final = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_START_S: Final = 30.0


@asynccontextmanager
async def bare_server(body: bytes) -> AsyncIterator[tuple[int, int]]:
    """It answers ``body`` to every lookup; its port and pid."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
        *(sys.executable, "-m", __name__, encode({"body": body.decode()}).decode()),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_S):
            line = await process.stdout.readline()
        yield int(line), process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _serve(body: bytes) -> None:
    async def find(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get(_ROUTE, find)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as on_uvloop:
        on_uvloop.run(_serve(task_of_this_process()["body"].encode()))
