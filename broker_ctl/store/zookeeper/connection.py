"""One TCP connection to one server: frames, xids, order. It knows nothing of sessions.

It is an `asyncio.Protocol` rather than a pair of reader and writer tasks: a reply is decoded in the
loop iteration that reads it, so no task has to be woken for it, and watch events are delivered in
the order of the wire, before any later reply. Requests of one loop iteration leave in one write. A
closed socket is known at once (`wait_closed`), where aiozk waits for a heartbeat to fail.
"""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.addresses import Server
from broker_ctl.clock import SystemClock
from broker_ctl.store.interface import Notification
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.arrivals import Arrivals
from broker_ctl.store.zookeeper.liveness.stall_writes import StallWrites
from broker_ctl.store.zookeeper.pending import OnReply, Pending, Xids
from broker_ctl.store.zookeeper.stream import Stream
from broker_ctl.store.zookeeper.tls import TlsCodec

# A server sends no payload beyond jute.maxbuffer; the slack is for headers.
_FRAME_SLACK_BYTES: Final = 1 << 20
_CLOCK: Final = SystemClock()
# Errors of one request that end the connection for all.
_ENDS: Final = (errors.SessionExpired, errors.SessionMoved, wire.MismatchedReply)


class Connection(asyncio.Protocol):
    """Replies come in the order of the requests; anything else ends the connection.

    Attributes:
        stream: its bytes.
        stall_writes: writes of a thread while the event loop does not run.
        handshake_s: when the connect request was written; a lease may count from then, however late
            the answer is read.
    """

    def __init__(
        self,
        on_event: Callable[[Notification], None],
        on_zxid: Callable[[int], None],
        on_room: Callable[[], None],
        max_frame_bytes: int,
        xids: Xids,
        *,
        on_reply: OnReply | None = None,
        tls: TlsCodec | None = None,
    ) -> None:
        self._on_event = on_event
        self._on_zxid = on_zxid
        self._on_room = on_room
        self._on_reply = on_reply
        self._max_request_bytes = max_frame_bytes
        self._loop = asyncio.get_running_loop()
        self.stream = Stream(self._loop, tls)
        self.stall_writes = StallWrites(self.stream, xids)
        most_bytes = max_frame_bytes + _FRAME_SLACK_BYTES
        self._arrivals = Arrivals(self.stream, self.stall_writes, most_bytes)
        self._pending: deque[Pending] = deque()
        self._handshake: asyncio.Future[wire.Handshake] = self._loop.create_future()
        self._closed: asyncio.Future[errors.StoreError] = self._loop.create_future()
        self._pinged_s: float | None = None  # when, while the ping has no answer
        self._xids = xids
        self.handshake_s = 0.0

    @classmethod
    async def open(
        cls,
        server: Server,
        request: Request,
        *,
        on_event: Callable[[Notification], None],
        on_zxid: Callable[[int], None],
        on_room: Callable[[], None],
        max_frame_bytes: int,
        xids: Xids,
        tls: ssl.SSLContext | None = None,
        on_reply: OnReply | None = None,
    ) -> "tuple[Connection, wire.Handshake]":
        """Connect and shake hands; the caller gives the deadline.

        Args:
            server: one address of it.
            request: the connect request.
            on_event: called with watch events in the order of the wire.
            on_zxid: called with the zxid of each reply before the reply is delivered.
            on_room: called after replies have come, when more requests may be sent.
            max_frame_bytes: jute.maxbuffer.
            xids: of the session.
            tls: how to wrap the connection, or None.
            on_reply: called for each reply with the request and its age in seconds.

        Raises:
            ConnectionLoss: refused, closed without an answer (a server without a quorum, or one
                that lags behind the zxid we have seen), or an answer that makes no sense.
        """
        loop = asyncio.get_running_loop()
        try:
            codec = TlsCodec(tls, server.host) if tls is not None else None
            protocol = partial(
                cls, on_event, on_zxid, on_room, max_frame_bytes, xids, on_reply=on_reply, tls=codec
            )
            _, connection = await loop.create_connection(protocol, server.address, server.port)
        except OSError as error:
            raise errors.ConnectionLoss(f"{server}: {error}") from error
        try:
            return connection, await connection.shake_hands(request)
        except BaseException:
            connection.abort("no handshake")
            raise

    async def shake_hands(self, request: Request) -> wire.Handshake:
        """Send the connect request, the first frame, and wait for its answer."""
        self.handshake_s = _CLOCK.now_s()
        self.stream.write(wire.frame(request, None))
        return await self._handshake

    def send(self, call: wire.Call[Any], future: "asyncio.Future[Any]") -> None:
        """Put a request on the wire; its reply or failure settles ``future``.

        A caller that gives up cancels its future; the place in the order of replies stays.
        """
        self._enqueue(self._xids.next(), call, call.record, future)

    def send_special(self, xid: int, record: Request) -> "asyncio.Future[None]":
        """Authentication and watches: requests with a fixed xid, answered in order too."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._enqueue(xid, None, record, future)
        return future

    def send_ping(self) -> None:
        """Ask the server for a sign of life, unless one ping is still unanswered.

        Pings are the one request whose reply may overtake others: the server answers it out of
        its pipeline, so it has a place of its own outside the order.
        """
        if self._pinged_s is None and not self._closed.done():
            self._pinged_s = self._loop.time()
            self.stream.write(wire.frame(wire.ping(), wire.XID_PING))

    def abort(self, why: str) -> None:
        """End the connection now, without a request to the server."""
        self._end(errors.ConnectionLoss(why))

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed.done()

    async def wait_closed(self) -> errors.StoreError:
        """Return why, once the connection has ended.

        `SessionExpired` and `SessionMoved` say that the session was lost with it.
        """
        return await asyncio.shield(self._closed)

    @property
    def in_flight(self) -> int:
        """Requests without a reply."""
        return len(self._pending)

    @property
    def idle_s(self) -> float:
        """Seconds since anything was sent."""
        return self._loop.time() - self.stream.last_sent_s

    @property
    def unanswered_s(self) -> float:
        """Age of the oldest request or ping without an answer, 0 without any."""
        sent_s = [self._pending[0].sent_s] if self._pending else []
        if self._pinged_s is not None:
            sent_s.append(self._pinged_s)
        return self._loop.time() - min(sent_s) if sent_s else 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the loop made it for a stream socket."""
        # uvloop's transports do not derive from asyncio's classes, so isinstance cannot check them.
        self.stream.open(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """Take every whole frame, a bounded part in each turn, and let more requests go."""
        self._arrivals.add(data)
        if not self._arrivals.is_behind:
            self._take_arrived()

    def _take_arrived(self) -> None:
        try:
            for frame in self._arrivals.of_turn():
                self._take(frame)
                if self._closed.done():
                    return
        except errors.TooLarge as error:
            if self._pending and self._pending[0].is_read:
                # A retry of the same request would end the next connection too.
                self._pending[0].fail(errors.TooLarge(f"{self._pending[0].call}: {error}"))
            self.abort(str(error))
        except (struct.error, UnicodeDecodeError) as error:
            self.abort(f"not a ZooKeeper server, or cut short: {error}")
        except ssl.SSLError as error:
            self.abort(f"TLS: {error}")
        else:
            if self._arrivals.is_behind:
                self._loop.call_soon(self._take_arrived)
            elif self.stream.is_at_end:
                self.abort("the server closed the connection")
            self._on_room()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail every unanswered request now that the socket is gone, not at some timeout."""
        self.stream.lost()
        why = str(error) if error else "the server closed the connection"
        self._end(errors.ConnectionLoss(why))

    def _enqueue(
        self,
        xid: int,
        call: wire.Call[Any] | None,
        record: Request,
        future: "asyncio.Future[Any]",
    ) -> None:
        pending = Pending(xid, call, future, self._loop.time(), self._on_reply)
        if self._closed.done():
            pending.fail(errors.ConnectionLoss(f"{call or 'request'}: not sent"))
            return
        data = wire.frame(record, xid)
        if len(data) > self._max_request_bytes:
            # The server would close the connection without an error, at every attempt.
            what = f"{call}: {len(data)} bytes, jute.maxbuffer is {self._max_request_bytes}"
            pending.fail(errors.TooLarge(what))
            return
        self._pending.append(pending)
        self.stream.write(data)

    def _take(self, data: bytes) -> None:
        if not self._handshake.done():
            self._handshake.set_result(wire.handshake(data))
            return
        xid, zxid, error_code = wire.reply_header(data)
        if zxid > 0:
            self._on_zxid(zxid)
        if xid == wire.XID_EVENT:
            notification = wire.event(data, zxid)
            if notification is not None:
                self._on_event(notification)
        elif xid == wire.XID_PING:
            self._pinged_s = None
        elif self._pending and self._pending[0].xid == xid:
            pending = self._pending.popleft()
            error = pending.refuse(error_code) if error_code else pending.answer(data)
            if isinstance(error, _ENDS):
                # Even if its caller has given up: this connection cannot be used any more.
                self._end(error)
        elif self.stall_writes.is_next(xid):
            self._take_stall_reply(error_code)
        else:
            # Never guess which request a reply belongs to.
            self.abort(f"reply {xid} is out of order")

    def _take_stall_reply(self, code: int) -> None:
        report = self.stall_writes.settle(is_committed=code == 0)
        if report is not None:
            self._loop.call_soon(report)
        elif isinstance(error := wire.error_of(code, ""), _ENDS):
            self._end(error)

    def _end(self, why: errors.StoreError) -> None:
        if self._closed.done():
            return
        self._closed.set_result(why)
        if not self._handshake.done():
            self._handshake.set_exception(errors.ConnectionLoss(str(why)))
        while self._pending:
            self._pending.popleft().lose(why)
        self.stream.close()
