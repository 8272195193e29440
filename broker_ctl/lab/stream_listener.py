"""A listening port whose connections are served by tasks, all of which end with it."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker_ctl.api.http.limits.acceptor import PlainPorts
from broker_ctl.api.http.limits.handshakes import Handshakes
from broker_ctl.tasks import TaskScope

_LIMIT_BYTES: Final = 1 << 16
_BACKLOG: Final = 100

# Serves one connection; when it returns, the connection is closed.
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class StreamListener:
    """Listens from `open` until `close`. ``len`` is the number of connections that are served.

    Handshakes are bounded as they are at the ports of clients.

    Args:
        owner: of the tasks, for the log.
        limit_bytes: the most that a reader buffers.
    """

    def __init__(self, serve: Serve, owner: str, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._serve = serve
        self._limit_bytes = limit_bytes
        self._tasks = TaskScope(owner)
        self._plain = PlainPorts(owner)
        self._handshakes = Handshakes()
        self._is_open = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen; with TLS a connection is served once its handshake is done.

        Raises:
            OSError: the address is taken, or not ours.
        """
        if tls is None:
            await self._plain.listen(self._make, host, port, _BACKLOG)
        else:
            await self._handshakes.listen(self._make, tls, host, port, _BACKLOG)
        self._is_open = True

    async def close(self) -> None:
        """Accept no more connections, and close those that are served."""
        self._is_open = False
        await self._plain.close()
        await self._handshakes.close()
        await self._tasks.close()

    def _make(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(self._limit_bytes), self._take)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
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
