"""Writes of a thread while the event loop does not run (docs: busy-loop).

The loop reads the replies when it runs again. When each of them had arrived is known from the
thread: it notes how many bytes were unread in the socket, and when. A byte that it missed, because
the loop was about to read it, counts as arrived later than it did, never earlier.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.store.zookeeper.stream import Stream

# Servers return the xid of a request. None of the pipeline has this one, whose replies therefore
# need no place in the order of the others.
XID: Final = -16
# Notes beyond that replace the oldest ones.
_MOST_NOTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class StallFrame:
    """A `StallWrite` for the wire, with `XID`."""

    frame: bytes
    period_s: float
    on_committed: Callable[[float, float], None]


class StallWrites:
    """Those of one connection. The thread calls `note` and `send`, the loop all others."""

    def __init__(self, stream: Stream, clock: Clock | None = None) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()
        # Without a reply, the oldest first: when each was sent, and what.
        self._sent: deque[tuple[float, StallFrame]] = deque()
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
        self._sent.append((self._clock.now_s(), write))
        if self._stream.send_now(write.frame):
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

    def settle(self, *, is_committed: bool) -> Callable[[], None] | None:
        """The reply to the oldest; returns what is to be called.

        Raises:
            LookupError: there is no such request.
        """
        sent_s, write = self._sent.popleft()
        arrived_s = self._clock.now_s() if self._arrived_s is None else self._arrived_s
        return (lambda: write.on_committed(sent_s, arrived_s)) if is_committed else None
