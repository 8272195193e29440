"""aiohttp's server with a maximum number of connections."""

import asyncio
import logging
import resource
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Generic, TypeVar

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import (
    HttpProcessingError,
    HttpRequestParser,
    HttpVersion11,
    RawRequestMessage,
    StreamWriter,
)
from aiohttp.streams import EMPTY_PAYLOAD

from broker_ctl import codec
from broker_ctl.api.http import responses
from broker_ctl.api.http.routing import KnownClient, RequestSteps
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.kinds import Counter
from broker_ctl.security.client_limits import origin_of

log = logging.getLogger(__name__)

# What the bodies of requests may take, as metrics show it.


class Bodies:
    """Bodies that one server is reading.

    Attributes:
        limit: bytes of one body.
        refused: how many were too large, or were not sent in time.
    """

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.refused = 0
        # By the id of a buffer: buffers are equal if their bytes are.
        self._reading: dict[int, bytearray] = {}

    def show(self, bounds: BoundInstruments) -> None:
        """Show them as a bound."""
        bounds.follow(
            "http-body-bytes",
            used=lambda: max(map(len, self._reading.values()), default=0),
            limit=lambda: self.limit,
            refused=lambda: self.refused,
        )

    def begin(self, body: bytearray) -> None:
        """Count what a body has so far."""
        self._reading[id(body)] = body

    def end(self, body: bytearray) -> None:
        """It is read, or refused."""
        del self._reading[id(body)]


# Whole requests without a body, in the bytes that a connection has received.


_GET: Final = b"GET "
_END: Final = b"\r\n\r\n"
_BUFFER_BYTES: Final = 1 << 16


class HeadParser:
    """aiohttp's parser, for the connections of one server.

    It is given nothing but whole heads, so that none of them leaves anything behind for the next.
    """

    def __init__(self) -> None:
        self._parser = _new_parser()

    def parse(self, data: bytes) -> RawRequestMessage | None:
        """The request, if the bytes are one GET of HTTP/1.1 that keeps the connection; else None.

        Whatever it refuses is for the parser of the connection itself, with its answer.
        """
        if not data.startswith(_GET) or data.find(_END) != len(data) - len(_END):
            return None
        try:
            messages, is_upgraded, _ = self._parser.feed_data(data)
        except HttpProcessingError:
            messages, is_upgraded = [], False
        if len(messages) == 1 and not is_upgraded:
            message, payload = messages[0]
            is_kept = message.version == HttpVersion11 and not message.should_close
            if is_kept and payload is EMPTY_PAYLOAD and not message.upgrade:
                return message
        # It failed, or it waits for a body, another protocol, or the end of the connection.
        self._parser = _new_parser()
        return None


def _new_parser() -> HttpRequestParser:
    loop = asyncio.get_running_loop()
    return HttpRequestParser(BaseProtocol(loop), loop, _BUFFER_BYTES, auto_decompress=False)


# Connections whose clients are not known yet: where there are too many, the oldest leave first.


T = TypeVar("T")


class Strangers(Generic[T]):
    """In the order of their arrival, of all addresses and of each one.

    There are no more keys than connections.
    """

    def __init__(self) -> None:
        self._origin_of: dict[T, str] = {}
        self._at: defaultdict[str, dict[T, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._origin_of)

    def add(self, one: T, origin: str) -> None:
        """The newest one."""
        self._origin_of[one] = origin
        self._at[origin][one] = None

    def discard(self, one: T) -> None:
        """It is known now, or gone."""
        origin = self._origin_of.pop(one, None)
        if origin is not None:
            of_origin = self._at[origin]
            del of_origin[one]
            if not of_origin:
                del self._at[origin]

    def count_of(self, origin: str) -> int:
        """How many an address has."""
        return len(self._at.get(origin, ()))

    def oldest(self) -> T | None:
        """The oldest of all; None: there is none."""
        return next(iter(self._origin_of), None)

    def oldest_of(self, origin: str) -> T | None:
        """The oldest of an address; None: it has none."""
        return next(iter(self._at.get(origin, ())), None)


# Which part of the process's descriptors the sockets of clients may have.
#
# An eighth is kept back for ZooKeeper, other brokers, logs and files: a daemon that cannot
# connect to ZooKeeper again loses its session and all bundles.


HTTP: Final = Fraction(1, 2)
BINARY: Final = Fraction(1, 4)
# Before their CONNECT; for a moment there may be twice as many.
BINARY_WAITING: Final = Fraction(1, 32)
BINARY_REFUSED: Final = Fraction(1, 32)
# Clients that begin their TLS handshake, at all ports.
HANDSHAKES: Final = Fraction(1, 32)


def cap(wanted: int, part: Fraction) -> int:
    """``wanted`` sockets, at most this part of the descriptors; at least one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, max(1, int(limit * part)))


def cap_and_log(wanted: int, part: Fraction, what: str, key: str) -> int:
    """As `cap`; a log line names the setting that does not count."""
    most = cap(wanted, part)
    if most < wanted:
        log.info(
            "limiting %s connections to %d instead of %s=%d: "
            "this process may open %d files; raise LimitNOFILE to allow more",
            *(what, most, key, wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )
    return most


# aiohttp's server with a maximum number of connections.
#
# Idle connections are closed: the time runs while the head of a request is incomplete, from the
# start of a connection and from each response on, so a client that sends nothing and a client
# that sends a head byte by byte are both closed. Bodies have their own limit, in
# `request_params.py`.
#
# A client that does not read its answers is closed after the same time.
#
# Bytes that are one whole request are offered to `begin` first, where aiohttp has nothing in
# progress on the connection; see `eager`.


# For aiohttp's own timer of idle connections: it does not know of responses that no task sends.
_NEVER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connections of one server share.

    Attributes:
        new_request: as aiohttp's factory.
        begin: begins the steps of a request without a body; None: it needs a task from the start.
        idle_timeout_s: how long a connection may have no whole request, or a client may leave its
            answers unread.
        unread: counts connections that were closed because of the latter.
        bodies: those that are being read.
    """

    heads: HeadParser
    new_request: Callable[..., web.BaseRequest]
    begin: Callable[[web.BaseRequest], RequestSteps | None]
    idle_timeout_s: float
    unread: Counter
    bodies: Bodies


class HttpConnection(web.RequestHandler):
    """aiohttp's connection, whose errors of its own are responses of this package.

    Attributes:
        origin: see `origins`; empty until it is connected.
        is_known: whether its client has proven a role, or need not.
        is_refused: whether no request of it is read.
        known_client: whose token was valid in its latest request; None: nobody's.
    """

    __slots__ = (
        "_answered_s",
        "_begun",
        "_has_only_heads",
        "_idle_timer",
        "_is_busy",
        "_own_loop",
        "_shared",
        "_unread_timer",
        "is_known",
        "is_refused",
        "known_client",
        "origin",
    )

    def __init__(self, server: web.Server, shared: Shared, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, keepalive_timeout=_NEVER_S, **options)
        self._own_loop = loop
        self._shared = shared
        self._begun: RequestSteps | None = None
        self._has_only_heads = True
        self._is_busy = False
        self._answered_s = loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self.is_known = False
        self.is_refused = False
        self.known_client: KnownClient | None = None
        self.origin = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve, until it is idle for too long."""
        super().connection_made(transport)
        self._watch_idleness()

    def connection_lost(self, error: BaseException | None) -> None:
        """Give up what has not gone on yet."""
        for timer in (self._idle_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        if self._begun is not None:
            self._begun.close()
            self._begun = None
        super().connection_lost(error)

    def pause_writing(self) -> None:
        """Wait for the client to read its answers, for a bounded time."""
        super().pause_writing()
        limit_s = self._shared.idle_timeout_s
        self._unread_timer = self._own_loop.call_later(limit_s, self._give_up_unread)

    def resume_writing(self) -> None:
        """The client reads them."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def end(self) -> None:
        """Close it now: what the client has not read is dropped."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def _give_up_unread(self) -> None:
        self._shared.unread.add()
        self.end()

    @property
    def bodies(self) -> Bodies:
        """Those that its server is reading."""
        return self._shared.bodies

    async def start(self) -> None:
        """Serve its requests."""
        # aiohttp starts this after `connection_made`, and fails where that has closed it.
        if not self.is_refused:
            await super().start()

    def close(self) -> None:
        """Read no further requests."""
        self._has_only_heads = False
        super().close()

    def data_received(self, data: bytes) -> None:
        """Answer at once, or give the bytes to aiohttp."""
        if not self._answer_at_once(data):
            super().data_received(data)

    def begin_request(self) -> RequestSteps | None:
        """Note that a request is in progress; its steps, if they have begun already."""
        self._is_busy = True
        begun, self._begun = self._begun, None
        return begun

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response; the next request may be answered at once again."""
        sent = await super().finish_response(request, resp, start_time)
        self._is_busy = False
        self._answered_s = self._own_loop.time()
        return sent

    def _answer_at_once(self, data: bytes) -> bool:
        """Whether the bytes were a request that is answered now.

        Bytes that are anything else but a whole head go to aiohttp, and so do all after them: only
        its parser knows then where the next request begins.
        """
        transport = self.transport
        if not self._has_only_heads or transport is None:
            return False
        shared = self._shared
        message = None if self._is_busy or self.writing_paused else shared.heads.parse(data)
        if message is None:
            self._has_only_heads = False
            return False
        writer = StreamWriter(self, self._own_loop)
        request = shared.new_request(message, EMPTY_PAYLOAD, self, writer, None)
        begun = shared.begin(request)
        response = None if begun is None else begun.response
        if response is None:
            self._begun, self._is_busy = begun, True
            return False
        assert isinstance(response, responses.ApiResponse)
        transport.write(response.rendered(request))
        self._answered_s = self._own_loop.time()
        return True

    def _watch_idleness(self) -> None:
        """Close the connection if it is idle for too long; else look again later."""
        limit_s, now_s = self._shared.idle_timeout_s, self._own_loop.time()
        due_s = (now_s if self._is_busy else self._answered_s) + limit_s
        if due_s <= now_s:
            self.end()
        elif self.transport is not None:
            self._idle_timer = self._own_loop.call_at(due_s, self._watch_idleness)

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

    Connections of clients that have not proven who they are take no place from others: beyond a
    limit, of all or of an address, the oldest of them is closed and counted in place of the new
    one. Without authentication a client is known by its first request.

    Attributes:
        refused: how many were rejected or closed so far.

    Args:
        max_of_address: of which one address may have as many; 0: all.
    """

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        request_factory: Callable[..., web.BaseRequest],
        begin: Callable[[web.BaseRequest], RequestSteps | None],
        idle_timeout_s: float,
        max_connections: int,
        max_of_address: int,
        refused: Counter,
        unread: Counter,
        bodies: Bodies,
        **options: Any,
    ) -> None:
        super().__init__(handle, request_factory=request_factory, **options)
        self._connection_options = options
        self._shared = Shared(HeadParser(), request_factory, begin, idle_timeout_s, unread, bodies)
        self.max_connections: Final = max_connections
        self._max_of_address = max_of_address
        self.refused = 0
        self._refusals = refused
        self._open: set[web.RequestHandler] = set()
        # Those that have become known stay here until they are looked at.
        self._strangers: Strangers[web.RequestHandler] = Strangers()
        # No more keys than there are open connections.
        self._open_of: Counts[str] = Counts()
        self._rejection = _render_rejection(f"{max_connections} connections are open already")
        self._rejection_of_address = _render_rejection(
            f"{max_of_address} connections of this address are open already"
        )

    def __call__(self) -> web.RequestHandler:
        """A handler for one more connection."""
        return HttpConnection(self, self._shared, **self._connection_options)

    def __len__(self) -> int:
        return len(self._open)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept the connection, or reject and close it."""
        assert isinstance(handler, HttpConnection)
        origin = handler.origin = origin_of(transport)
        is_crowded = 0 < self._max_of_address <= self._open_of[origin]
        if is_crowded and not self._close_stranger(lambda: self._strangers.oldest_of(origin)):
            self._refuse(handler, transport, self._rejection_of_address)
        elif len(self._open) < self.max_connections or self._close_stranger(self._strangers.oldest):
            self._open.add(handler)
            self._open_of[origin] += 1
            self._strangers.add(handler, origin)
            super().connection_made(handler, transport)
        else:
            self._refuse(handler, transport, self._rejection)

    def connection_lost(
        self, handler: web.RequestHandler, error: BaseException | None = None
    ) -> None:
        """Forget a closed connection."""
        self._forget(handler)
        self._strangers.discard(handler)
        super().connection_lost(handler, error)

    def _refuse(
        self, connection: HttpConnection, transport: asyncio.Transport, rejection: bytes
    ) -> None:
        self._count_refusal()
        connection.is_refused = True
        # Over TLS it would keep its socket until its client says goodbye.
        if transport.get_extra_info("sslcontext") is None:
            transport.write(rejection)
            connection.force_close()
        else:
            connection.end()

    def _count_refusal(self) -> None:
        self.refused += 1
        self._refusals.add()

    def _forget(self, handler: web.RequestHandler) -> None:
        if handler not in self._open:
            return
        assert isinstance(handler, HttpConnection)
        self._open.discard(handler)
        self._open_of[handler.origin] -= 1
        if not self._open_of[handler.origin]:
            del self._open_of[handler.origin]

    def _close_stranger(self, oldest: Callable[[], web.RequestHandler | None]) -> bool:
        """Close the oldest connection of a client that is not known; whether there was one.

        Each connection that has become known is passed once.
        """
        while (one := oldest()) is not None:
            assert isinstance(one, HttpConnection)
            self._strangers.discard(one)
            if not one.is_known:
                self._count_refusal()
                self._forget(one)
                one.end()
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
