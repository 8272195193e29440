"""An aiohttp application on a free port of loopback, for the length of a block."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from aiohttp import web

from broker_ctl.lab.embedded.ports import port_of, reserve_port

_HELD: list[socket.socket] = []


@asynccontextmanager
async def serving(
    app: web.Application, port: int = 0, ssl: SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve ``app``; yields its URL without a path."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=ssl)
        await site.start()
        bound: int = runner.addresses[0][1]
        yield f"{'https' if ssl else 'http'}://127.0.0.1:{bound}"
    finally:
        await runner.cleanup()


def free_port() -> int:
    """A port without a listener, returned to no other caller while the tests run."""
    held = reserve_port()
    _HELD.append(held)
    return port_of(held)
