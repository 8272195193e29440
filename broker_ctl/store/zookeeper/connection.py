"""One TCP connection to one server: frames, xids, order. It knows nothing of sessions."""

import asyncio
import itertools
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, cast

from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.addresses import Server
from broker_ctl.clock import Clock, SystemClock
from broker_ctl.errors import TooLarge
from broker_ctl.store.interface import Notification
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.stream import Stream, TlsCodec

# Requests on the wire: their numbers, and how they end.


# Called with the request, and with the seconds between sending it and the reply.
OnReply = Callable[[str, float], None]

# A signed int of four bytes; 0 is the number of the requests that servers make themselves.
_MAX_XID: Final = 0x7FFFFFFF


class Xids:
    """Numbers of requests: one sequence for the life of a session (docs: zookeeper-xids).

    A server sends a commit to the request that waits for it by session id and xid, and looks at
    nothing else. A write of a connection that has ended may still be a proposal when the session
    has moved to another server. If the next connection counted from 1 again, the commit of that
    write would answer another request of the same number. Any thread may take one.

    Args:
        after: the last number that an earlier process has used in the same session.
    """

    def __init__(self, after: int = 0) -> None:
        # `next` of this counter is one step of the interpreter: the loop and the thread that writes
        # for it never get the same number.
        self._numbers = itertools.count(after)

    def next(self) -> int:
        """A number that no request of the session has, from 1 on."""
        return next(self._numbers) % _MAX_XID + 1


class Pending:
    """A sent request.

    If its caller has cancelled the future, it keeps its place until the reply.
    """

    __slots__ = ("_on_reply", "call", "future", "sent_s", "xid")

    def __init__(
        self,
        xid: int,
        call: wire.Call[Any] | None,
        future: "asyncio.Future[Any]",
        sent_s: float,
        on_reply: OnReply | None = None,
    ) -> None:
        self.xid = xid
        self.call = call
        self.future = future
        self.sent_s = sent_s
        self._on_reply = on_reply

    @property
    def is_read(self) -> bool:
        """Whether it may be sent again, whatever its outcome was."""
        return self.call is not None and not self.call.is_write

    def answer(self, data: bytes) -> errors.StoreError | None:
        """Settle with a reply whose header has no error.

        Return an error of the session in its parts.
        """
        self._replied()
        future, call = self.future, self.call
        if future.done():
            return None
        if call is None:
            future.set_result(None)
            return None
        try:
            future.set_result(call.decode(data, wire.REPLY_HEADER_BYTES))
        except wire.MismatchedReply as error:
            self.lose(error)
            return error
        except errors.StoreError as error:
            # Its traceback has this function, which has the future: as `RequestPipeline.call`.
            future.set_exception(error.with_traceback(None))
            return error
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            # The write was done, but its result has to be read back.
            kind = errors.Ambiguous if call.is_write else errors.StoreError
            future.set_exception(kind(f"{call}: unreadable reply: {error}"))
        return None

    def refuse(self, code: int) -> errors.StoreError:
        """Settle with an error of the server; return the error that the caller gets."""
        self._replied()
        error = wire.error_of(code, self.call.path if self.call else "")
        gave_up = errors.ConnectionLoss | errors.OperationTimeout
        if self.call is not None and self.call.is_write and isinstance(error, gave_up):
            # A server that gave up waiting does not know whether the write was applied.
            error = errors.Ambiguous(str(error))
        self.fail(error)
        return error

    def lose(self, why: errors.StoreError) -> None:
        """Fail because the connection ended before the reply came."""
        is_write = self.call is not None and self.call.is_write
        kind = errors.Ambiguous if is_write else errors.ConnectionLoss
        self.fail(kind(f"{self.call or 'request'}: {why}"))

    def _replied(self) -> None:
        # Even after the caller has given up: the server did take this long.
        if self._on_reply is not None and self.call is not None:
            self._on_reply(self.call.what, self.future.get_loop().time() - self.sent_s)

    def fail(self, error: errors.StoreError) -> None:
        """Fail the request, which will never have an answer."""
        if not self.future.done():
            self.future.set_exception(error)


# Writes of a thread while the event loop does not run (docs: busy-loop).
#
# The loop reads the replies when it runs again. When each of them had arrived is known from the
# thread: it notes how many bytes were unread in the socket, and when. A byte that it missed,
# because the loop was about to read it, counts as arrived later than it did, never earlier.


_XID: Final = struct.Struct("!i")
_XID_AT: Final = 4  # behind the length of the frame
# Notes beyond that replace the oldest ones.
_MOST_NOTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class StallFrame:
    """A `StallWrite` for the wire; each time that it is sent it gets an xid of its own."""

    frame: bytes
    period_s: float
    on_committed: Callable[[float, float], None]

    def numbered(self, xid: int) -> bytes:
        """The frame with an xid."""
        return self.frame[:_XID_AT] + _XID.pack(xid) + self.frame[_XID_AT + _XID.size :]


class _Sent(NamedTuple):
    xid: int
    sent_s: float
    write: StallFrame


class StallWrites:
    """Those of one connection. The thread calls `note` and `send`, the loop all others."""

    def __init__(self, stream: Stream, xids: Xids, clock: Clock | None = None) -> None:
        self._stream = stream
        self._xids = xids
        self._clock = clock or SystemClock()
        # Without a reply, the oldest first.
        self._sent: deque[_Sent] = deque()
        self._read_bytes = 0
        # Numbers of bytes of the whole stream, and when these had arrived.
        self._notes: deque[tuple[int, float]] = deque(maxlen=_MOST_NOTES)
        self._noted_bytes = 0
        self._arrived_s: float | None = None

    def note(self) -> None:
        """Note what has arrived."""
        # Read first: what the loop reads meanwhile must not count twice.
        read_bytes = self._read_bytes
        total_bytes = read_bytes + self._stream.unread_bytes()
        if total_bytes > self._noted_bytes:
            self._noted_bytes = total_bytes
            self._notes.append((total_bytes, self._clock.now_s()))

    def send(self, write: StallFrame) -> bool:
        """Send it at once; False if it cannot be sent."""
        # Before it is sent, or the loop could find its reply first.
        xid = self._xids.next()
        self._sent.append(_Sent(xid, self._clock.now_s(), write))
        if self._stream.send_now(write.numbered(xid)):
            return True
        self._sent.pop()
        return False

    def parts(self, data: bytes) -> Iterator[bytes]:
        """What the loop has read, in parts; `settle` knows when the current part had arrived."""
        begin = at = self._read_bytes
        end = self._read_bytes = begin + len(data)
        while self._notes and at < end:
            noted_bytes, noted_s = self._notes[0]
            if noted_bytes <= at:
                self._notes.popleft()
                continue
            until = min(noted_bytes, end)
            self._arrived_s = noted_s
            yield data[at - begin : until - begin]
            at = until
        if at < end:
            self._arrived_s = None
            yield data[at - begin :]

    def is_next(self, xid: int) -> bool:
        """Whether the oldest without a reply has this xid."""
        return bool(self._sent) and self._sent[0].xid == xid

    def settle(self, *, is_committed: bool) -> Callable[[], None] | None:
        """The reply to the oldest, which there must be; returns what is to be called."""
        _, sent_s, write = self._sent.popleft()
        arrived_s = self._clock.now_s() if self._arrived_s is None else self._arrived_s
        return (lambda: write.on_committed(sent_s, arrived_s)) if is_committed else None


# A stream of bytes, cut into frames.


_LENGTH = struct.Struct("!i")


class Frames:
    """Assembles a frame that spans many reads without copying its parts at each read."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partial = bytearray()
        self._wanted = _LENGTH.size  # bytes of the frame that `_partial` begins with

    def cut(self, data: bytes) -> Iterator[bytes]:
        """The frames that ``data`` completes, without their lengths.

        Raises:
            TooLarge: a frame that is longer than it may be, or no frame at all. It is raised as
                soon as its length is known: what follows would never end.
        """
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
            if not 0 <= length <= self._max_bytes:
                raise TooLarge(f"a frame of {length} bytes")
            start = offset + _LENGTH.size
            if start + length > size:
                self._wanted = _LENGTH.size + length
                break
            offset = start + length
            yield data[start:offset]
        if offset < size:
            self._partial += data[offset:]


# What a socket has received, as frames, and a bounded part of it in each turn of the loop.
#
# A failover makes thousands of events, and a reply may have a thousand nodes: decoded in one turn
# they would delay a heartbeat. The order of the wire holds: nothing overtakes an event, so that
# no cache learns of a change after an answer that shows it. While a part waits, the socket is not
# read: the system holds what follows, and then the server does.


BYTES_A_TURN: Final = 256 * 1024
# A small frame costs its listeners as much as a larger one costs its decoder.
LEAST_FRAME_BYTES: Final = 4 * 1024


class Arrivals:
    """Received bytes until they are frames; ``stall_writes`` learns when each part had arrived."""

    def __init__(self, stream: Stream, stall_writes: StallWrites, max_bytes: int) -> None:
        self._stream = stream
        self._stall_writes = stall_writes
        self._cutter = Frames(max_bytes)
        self._data: deque[bytes] = deque()
        self._frames: Iterator[bytes] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether frames are left for the next turn."""
        return self._frames is not None

    def add(self, data: bytes) -> None:
        """Append what was received."""
        self._data.append(data)

    def of_turn(self) -> Iterator[bytes]:
        """The frames of this turn.

        Raises:
            TooLarge: a frame that is longer than it may be, or no frame at all.
            ssl.SSLError: the connection cannot be used any more.
        """
        if self._frames is None:
            self._frames = self._all()
        bytes_left = BYTES_A_TURN
        for frame in self._frames:
            yield frame
            bytes_left -= max(len(frame), LEAST_FRAME_BYTES)
            if bytes_left <= 0:
                self._stream.pause()
                return
        self._frames = None
        self._stream.resume()

    def _all(self) -> Iterator[bytes]:
        while self._data:
            for part in self._stall_writes.parts(self._data.popleft()):
                yield from self._cutter.cut(self._stream.read(part))


# One TCP connection to one server: frames, xids, order. It knows nothing of sessions.
#
# It is an `asyncio.Protocol` rather than a pair of reader and writer tasks: a reply is decoded in
# the loop iteration that reads it, so no task has to be woken for it, and watch events are
# delivered in the order of the wire, before any later reply. Requests of one loop iteration leave
# in one write. A closed socket is known at once (`wait_closed`), where aiozk waits for a
# heartbeat to fail.


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
