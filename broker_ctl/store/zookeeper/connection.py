"""One TCP connection to one server: frames, xids, order. It knows nothing of sessions.

It is an `asyncio.Protocol` rather than a pair of reader and writer tasks: a reply is decoded in
the loop iteration that reads it, so no task has to be woken for it, and watch events are told in
the order of the wire before any later reply is. Requests of one loop iteration leave in one write.
A closed socket is known at once (`wait_closed`), where aiozk waits for a heartbeat to fail.
"""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.store.interface import Notification
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.codes import error_of

_LENGTH = struct.Struct("!i")
_MAX_XID: Final = 0x7FFFFFFF
# Beyond jute.maxbuffer a server sends nothing; the slack is for headers.
_FRAME_SLACK_BYTES: Final = 1 << 20


class _Pending:
    """A request on the wire, waiting for its reply."""

    __slots__ = ("call", "future", "sent_s", "xid")

    def __init__(
        self,
        xid: int,
        call: wire.Call[Any] | None,
        future: "asyncio.Future[Any]",
        sent_s: float,
    ) -> None:
        self.xid = xid
        self.call = call
        self.future = future
        self.sent_s = sent_s


class Connection(asyncio.Protocol):
    """Replies come in the order of the requests; anything else ends the connection."""

    def __init__(
        self,
        on_event: Callable[[Notification], None],
        on_zxid: Callable[[int], None],
        on_room: Callable[[], None],
        max_frame_bytes: int,
    ) -> None:
        self._on_event = on_event
        self._on_zxid = on_zxid
        self._on_room = on_room
        self._max_request_bytes = max_frame_bytes
        self._max_frame_bytes = max_frame_bytes + _FRAME_SLACK_BYTES
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._partial = bytearray()
        self._wanted = _LENGTH.size  # bytes of the frame that `_partial` begins with
        self._out: list[bytes] = []
        self._pending: deque[_Pending] = deque()
        self._handshake: asyncio.Future[wire.Handshake] = self._loop.create_future()
        self._closed: asyncio.Future[errors.StoreError] = self._loop.create_future()
        self._ping: _Pending | None = None
        self._xid = 0
        self._last_sent_s = self._loop.time()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        request: Request,
        *,
        on_event: Callable[[Notification], None],
        on_zxid: Callable[[int], None],
        on_room: Callable[[], None],
        max_frame_bytes: int,
        tls: ssl.SSLContext | None = None,
    ) -> "tuple[Connection, wire.Handshake]":
        """Connect and shake hands; the caller gives the deadline.

        Args:
            host: name or address of the server.
            port: its port.
            request: the connect request.
            on_event: hears watch events in the order of the wire.
            on_zxid: hears the zxid of each reply before the reply is delivered.
            on_room: hears that replies have come, so more requests may go.
            max_frame_bytes: jute.maxbuffer.
            tls: how to wrap the connection, or None.

        Raises:
            ConnectionLoss: refused, closed without an answer (a server without a quorum, or one
                that lags behind the zxid we have seen), or an answer that makes no sense.
        """
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: cls(on_event, on_zxid, on_room, max_frame_bytes),
                host,
                port,
                ssl=tls,
            )
        except (OSError, UnicodeError) as error:  # a name that cannot be one is a UnicodeError
            raise errors.ConnectionLoss(f"{host}:{port}: {error}") from error
        try:
            return connection, await connection.shake_hands(request)
        except BaseException:
            connection.abort("no handshake")
            raise

    # What the session asks of it.

    async def shake_hands(self, request: Request) -> wire.Handshake:
        """Send the connect request, the first frame, and wait for its answer."""
        self._write(wire.frame(request, None))
        return await self._handshake

    def send(self, call: wire.Call[Any], future: "asyncio.Future[Any]") -> None:
        """Put a request on the wire; its reply or failure settles ``future``.

        A caller that gives up cancels its future; the place in the order of replies stays.
        """
        self._xid = self._xid + 1 if self._xid < _MAX_XID else 1
        self._enqueue(self._xid, call, call.record, future)

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
        if self._ping is None and not self._closed.done():
            self._ping = _Pending(wire.XID_PING, None, self._loop.create_future(), self._now())
            self._write(wire.frame(wire.ping(), wire.XID_PING))

    def abort(self, why: str) -> None:
        """End the connection now, without a word to the server."""
        self._end(errors.ConnectionLoss(why))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
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
        return self._now() - self._last_sent_s

    @property
    def unanswered_s(self) -> float:
        """Age of the oldest request or ping without an answer, 0 without any."""
        waiting = [self._ping] if self._ping is not None else []
        if self._pending:
            waiting.append(self._pending[0])
        return max((self._now() - pending.sent_s for pending in waiting), default=0.0)

    # What the transport tells it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the loop made it for a stream socket."""
        # uvloop's transports are no subclass of asyncio's: what they are cannot be asked.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Cut frames; a frame that spans many reads is gathered without copying it again."""
        if self._partial:
            self._partial += data
            if len(self._partial) < self._wanted:
                return
            data = bytes(self._partial)
            self._partial.clear()
        offset, size = 0, len(data)
        self._wanted = _LENGTH.size
        while size - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, offset)
            if not 0 <= length <= self._max_frame_bytes:
                self._refuse(length)
                return
            end = offset + _LENGTH.size + length
            if end > size:
                self._wanted = end - offset
                break
            self._frame(data[offset + _LENGTH.size : end])
            if self._closed.done():
                return
            offset = end
        if offset < size:
            self._partial += data[offset:]
        if offset:
            self._on_room()

    def _refuse(self, length: int) -> None:
        """End the connection over a frame that is too long to be taken, or no frame at all."""
        what = f"a frame of {length} bytes"
        if self._pending and (call := self._pending[0].call) and not call.is_write:
            # To ask for it again would end the next connection too, and so on.
            self._fail_one(self._pending[0], errors.TooLarge(f"{call}: {what}"))
        self.abort(what)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone: everything unanswered fails now, not at some timeout."""
        self._transport = None
        why = str(error) if error else "the server closed the connection"
        self._end(errors.ConnectionLoss(why))

    # Inside.

    def _now(self) -> float:
        return self._loop.time()

    def _enqueue(
        self,
        xid: int,
        call: wire.Call[Any] | None,
        record: Request,
        future: "asyncio.Future[Any]",
    ) -> None:
        pending = _Pending(xid, call, future, self._now())
        if self._closed.done():
            self._fail_one(pending, errors.ConnectionLoss(f"{call or 'request'}: not sent"))
            return
        data = wire.frame(record, xid)
        if len(data) > self._max_request_bytes:
            # The server would close the connection without a word, and so for every attempt.
            what = f"{call}: {len(data)} bytes, jute.maxbuffer is {self._max_request_bytes}"
            future.set_exception(errors.TooLarge(what))
            return
        self._pending.append(pending)
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._last_sent_s = self._now()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def _frame(self, data: bytes) -> None:
        try:
            if self._handshake.done():
                self._reply(data)
            else:
                self._handshake.set_result(wire.handshake(data))
        except (struct.error, UnicodeDecodeError) as error:
            self.abort(f"not a ZooKeeper server, or cut short: {error}")

    def _reply(self, data: bytes) -> None:
        header = wire.reply_header(data)
        if header.zxid > 0:
            self._on_zxid(header.zxid)
        if header.xid == wire.XID_EVENT:
            notification = wire.event(data, header)
            if notification is not None:
                self._on_event(notification)
        elif header.xid == wire.XID_PING:
            self._ping = None
        elif not self._pending or self._pending[0].xid != header.xid:
            # Never guess which request a reply belongs to.
            self.abort(f"reply {header.xid} is out of order")
        elif header.error:
            self._refused(self._pending.popleft(), header.error)
        else:
            self._settle(self._pending.popleft(), data)

    def _refused(self, pending: _Pending, code: int) -> None:
        call = pending.call
        error = error_of(code, call.path if call else "")
        lost = errors.ConnectionLoss | errors.OperationTimeout
        if call is not None and call.is_write and isinstance(error, lost):
            # A server that gave up waiting does not know what became of the write.
            error = errors.Ambiguous(str(error))
        self._fail_one(pending, error)
        if isinstance(error, errors.SessionExpired | errors.SessionMoved):
            # Whether or not its caller still listens: this connection is of no use any more.
            self._end(error)

    def _settle(self, pending: _Pending, data: bytes) -> None:
        future, call = pending.future, pending.call
        if future.done():
            return
        if call is None:
            future.set_result(None)
            return
        try:
            future.set_result(call.decode(data, wire.REPLY_HEADER_BYTES))
        except errors.StoreError as error:
            future.set_exception(error)
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            # A write was done, but with what result has to be read back.
            kind = errors.Ambiguous if call.is_write else errors.StoreError
            future.set_exception(kind(f"{call}: unreadable reply: {error}"))

    def _end(self, why: errors.StoreError) -> None:
        if self._closed.done():
            return
        self._closed.set_result(why)
        if not self._handshake.done():
            self._handshake.set_exception(errors.ConnectionLoss(str(why)))
        self._ping = None
        while self._pending:
            pending = self._pending.popleft()
            is_write = pending.call is not None and pending.call.is_write
            kind = errors.Ambiguous if is_write else errors.ConnectionLoss
            self._fail_one(pending, kind(f"{pending.call or 'request'}: {why}"))
        if self._transport is not None:
            self._transport.abort()

    @staticmethod
    def _fail_one(pending: _Pending, error: errors.StoreError) -> None:
        if not pending.future.done():
            pending.future.set_exception(error)
