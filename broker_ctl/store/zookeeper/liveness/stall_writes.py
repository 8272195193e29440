"""Writes of a thread while the event loop does not run (docs: busy-loop).

The loop reads the replies when it runs again. When each of them had arrived is known from the
thread: it notes how many bytes were unread in the socket, and when. A byte that it missed, because
the loop was about to read it, counts as arrived later than it did, never earlier.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.store.zookeeper.pending import Xids
from broker_ctl.store.zookeeper.stream import Stream

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
