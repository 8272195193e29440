"""aiohttp's server with a bound on its connections.

The idle ones end by aiohttp's own timer, `keepalive_timeout`: it runs while the head of a request
is not complete, from the beginning of a connection and from each answer on, so that who sends
nothing and who sends a head letter by letter are ended alike. Bodies have a limit of their own, in
`questions.py`.
"""

import asyncio
import logging
import resource
from typing import Any, Final

from aiohttp import web

from broker_ctl import codec
from broker_ctl.instruments.kinds import Counter

log = logging.getLogger(__name__)

# What is left of the descriptors of the process is for stores, logs and other brokers.
_SHARE: Final = 2


class BoundedServer(web.Server):
    """Takes so many connections at a time; one more is told so, counted, and closed."""

    def __init__(self, *args: Any, most: int, refused: Counter, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most = most
        self._refused = refused
        self._open: set[web.RequestHandler] = set()
        self._refusal = _refusal(f"{most} connections are open already")

    def __len__(self) -> int:
        return len(self._open)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Let it in, or end it."""
        if len(self._open) < self._most:
            self._open.add(handler)
            super().connection_made(handler, transport)
            return
        self._refused.add()
        transport.write(self._refusal)
        handler.force_close()

    def connection_lost(
        self, handler: web.RequestHandler, error: BaseException | None = None
    ) -> None:
        """It has gone."""
        self._open.discard(handler)
        super().connection_lost(handler, error)


def _refusal(reason: str) -> bytes:
    """The answer to a request that was not read."""
    body = codec.encode({"error": "Busy", "reason": reason})
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def within_descriptors(wanted: int) -> int:
    """So many connections, or what half of the descriptors of this process allow."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or wanted <= limit // _SHARE:
        return wanted
    log.info(
        "%d HTTP connections at a time, not maxHttpServerConnections=%d: "
        "this process may open %d files; a higher LimitNOFILE allows more",
        *(limit // _SHARE, wanted, limit),
    )
    return limit // _SHARE
