"""What a socket has received, as frames, and a bounded part of it in each turn of the loop.

A failover makes thousands of events, and a reply may have a thousand nodes: decoded in one turn
they would delay a heartbeat. The order of the wire holds: nothing overtakes an event, so that no
cache learns of a change after an answer that shows it. While a part waits, the socket is not read:
the system holds what follows, and then the server does.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from broker_ctl.store.zookeeper.frames import Frames
from broker_ctl.store.zookeeper.liveness.stall_writes import StallWrites
from broker_ctl.store.zookeeper.stream import Stream

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
