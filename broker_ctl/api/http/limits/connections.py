"""aiohttp's server with a maximum number of connections.

aiohttp's `keepalive_timeout` closes idle connections: it runs while the head of a request is
incomplete, from the start of a connection and from each response on, so a client that sends nothing
and a client that sends a head byte by byte are both closed. Bodies have their own limit, in
`request_params.py`.
"""

import asyncio
import logging
import resource
from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from broker_ctl import codec
from broker_ctl.api.http import responses
from broker_ctl.instruments.kinds import Counter
from broker_ctl.security.client_limits.origins import origin_of

log = logging.getLogger(__name__)

# The other half of the process's descriptors is for stores, logs and other brokers.
_SHARE: Final = 2


class Connection(web.RequestHandler):
    """aiohttp's connection, whose errors of its own are responses of this package.

    Attributes:
        has_sent_request: whether the head of a request has arrived in full.
        origin: see `origins`; empty until it is connected.
        is_refused: whether no request of it is read.
    """

    __slots__ = ("has_sent_request", "is_refused", "origin")

    has_sent_request: bool
    is_refused: bool
    origin: str

    async def start(self) -> None:
        """Serve its requests."""
        # aiohttp starts this after `connection_made`, and fails where that has closed it.
        if not self.is_refused:
            await super().start()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to what is not HTTP; the connection ends with it."""
        failed = super().handle_error(request, status, exc, message)
        assert isinstance(failed, web.Response)
        return responses.text(failed.text or "", failed.status)


class BoundedServer(web.Server):
    """Accepts ``max_connections`` at a time; any further one gets a 503, is counted and closed.

    Silent connections, which have sent no request yet, take no place from others: beyond the limit
    the oldest of them is closed and counted in place of the new one.

    Args:
        max_of_address: of which one address may have as many; 0: all.
    """

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        request_factory: Callable[..., web.BaseRequest],
        max_connections: int,
        max_of_address: int,
        refused: Counter,
        **options: Any,
    ) -> None:
        super().__init__(handle, request_factory=request_factory, **options)
        self._connection_options = options
        self._max_connections = max_connections
        self._max_of_address = max_of_address
        self._refused = refused
        self._open: set[web.RequestHandler] = set()
        # Those that may be silent, oldest first; those that have spoken stay until they are looked
        # at.
        self._silent: OrderedDict[web.RequestHandler, None] = OrderedDict()
        # No more keys than there are open connections.
        self._open_of: Counts[str] = Counts()
        self._rejection = _render_rejection(f"{max_connections} connections are open already")
        self._rejection_of_address = _render_rejection(
            f"{max_of_address} connections of this address are open already"
        )

    def __call__(self) -> web.RequestHandler:
        """A handler for one more connection."""
        connection = Connection(self, loop=asyncio.get_running_loop(), **self._connection_options)
        connection.has_sent_request = False
        connection.is_refused = False
        connection.origin = ""
        return connection

    def __len__(self) -> int:
        return len(self._open)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept the connection, or reject and close it."""
        assert isinstance(handler, Connection)
        origin = handler.origin = origin_of(transport)
        if 0 < self._max_of_address <= self._open_of[origin]:
            self._refuse(handler, transport, self._rejection_of_address)
        elif len(self._open) < self._max_connections or self._close_silent():
            self._open.add(handler)
            self._open_of[origin] += 1
            self._silent[handler] = None
            super().connection_made(handler, transport)
        else:
            self._refuse(handler, transport, self._rejection)

    def connection_lost(
        self, handler: web.RequestHandler, error: BaseException | None = None
    ) -> None:
        """Forget a closed connection."""
        self._forget(handler)
        self._silent.pop(handler, None)
        super().connection_lost(handler, error)

    def _refuse(
        self, connection: Connection, transport: asyncio.Transport, rejection: bytes
    ) -> None:
        self._refused.add()
        connection.is_refused = True
        transport.write(rejection)
        connection.force_close()

    def _forget(self, handler: web.RequestHandler) -> None:
        if handler not in self._open:
            return
        assert isinstance(handler, Connection)
        self._open.discard(handler)
        self._open_of[handler.origin] -= 1
        if not self._open_of[handler.origin]:
            del self._open_of[handler.origin]

    def _close_silent(self) -> bool:
        """Close the oldest silent connection; whether there was one.

        Each connection that has spoken is passed once.
        """
        while self._silent:
            oldest, _ = self._silent.popitem(last=False)
            assert isinstance(oldest, Connection)
            if not oldest.has_sent_request:
                self._refused.add()
                self._forget(oldest)
                oldest.force_close()
                return True
        return False


def _render_rejection(reason: str) -> bytes:
    """The 503 for a connection whose request is not read."""
    body = codec.encode({"error": "Busy", "reason": reason})
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


def cap_to_descriptors(wanted: int) -> int:
    """``wanted`` connections, at most half of this process's descriptor limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or wanted <= limit // _SHARE:
        return wanted
    log.info(
        "limiting HTTP connections to %d instead of maxHttpServerConnections=%d: "
        "this process may open %d files; raise LimitNOFILE to allow more",
        *(limit // _SHARE, wanted, limit),
    )
    return limit // _SHARE
