"""A listening port whose connections are served by tasks, all of which end with it."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker_ctl.tasks import TaskScope

_LIMIT_BYTES: Final = 1 << 16
_HANDSHAKE_S: Final = 10.0

# Serves one connection; when it returns, the connection is closed.
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class StreamListener:
    """Listens from `open` until `close`. ``len`` is the number of connections that are served.

    Args:
        owner: of the tasks, for the log.
        limit_bytes: the most that a reader buffers.
    """

    def __init__(self, serve: Serve, owner: str, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._serve = serve
        self._limit_bytes = limit_bytes
        self._tasks = TaskScope(owner)
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen; with TLS a connection is served once its handshake is done.

        Raises:
            OSError: the address is taken, or not ours.
        """
        self._server = await asyncio.start_server(
            self._take,
            host,
            port,
            limit=self._limit_bytes,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_S,
        )

    async def close(self) -> None:
        """Accept no more connections, and close those that are served."""
        if self._server is not None:
            loop = asyncio.get_running_loop()
            for listening in self._server.sockets:
                loop.remove_reader(listening)
            # An accepted socket becomes a connection in the next iteration of the loop; if the
            # server is closed by then it does not, and the socket would stay open (CPython 3.11,
            # `Server._attach`).
            await asyncio.sleep(0)
            self._server.close()
        await self._tasks.close()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():
            # It was accepted before the port was closed.
            writer.transport.abort()
            return

        def ended(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step closes nothing itself.
            if task.cancelled():
                writer.transport.abort()
            else:
                writer.close()

        self._tasks.start(self._serve(reader, writer), "connection").add_done_callback(ended)
