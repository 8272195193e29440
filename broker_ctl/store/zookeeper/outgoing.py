"""The frames of a connection on their way out.

The event loop writes them, and while it is busy, another thread may send a frame between two of
them. The thread uses a descriptor of its own for the same socket: the loop may close its own at any
time, and the system may give that number to another file.
"""

import asyncio
import logging
import os
import socket
import threading

log = logging.getLogger(__name__)


class Outgoing:
    """Writes whole frames in their order; `send_now` is for another thread, the rest for the loop.

    Attributes:
        last_sent_s: when the loop last wrote a frame, on the loop's clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self.last_sent_s = loop.time()
        # Guards the socket's stream of bytes and ``_shared``. Nothing blocks while it is held.
        # The transport might report the end of the socket from inside a write: hence an RLock.
        self._lock = threading.RLock()
        self._shared: socket.socket | None = None

    def open(self, transport: asyncio.Transport) -> None:
        """Write to ``transport`` from now on."""
        self._transport = transport

    def write(self, frame: bytes) -> None:
        """Write a frame. All frames of one iteration of the loop leave together."""
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.append(frame)
        self.last_sent_s = self._loop.time()

    def share(self) -> bool:
        """Allow `send_now`; False over TLS, where only the loop can encrypt, or when closed."""
        transport = self._transport
        if transport is None or transport.get_extra_info("sslcontext") is not None:
            return False
        own = transport.get_extra_info("socket")
        try:
            shared = socket.socket(fileno=os.dup(own.fileno()))
        except OSError as error:
            log.warning("only the event loop sends pings: %s", error)
            return False
        with self._lock:
            former, self._shared = self._shared, shared
        if former is not None:
            former.close()
        return True

    def send_now(self, frame: bytes) -> bool:
        """Send a small frame at once, from any thread; False if it cannot be sent."""
        with self._lock:
            transport = self._transport
            # Bytes that the transport still holds may end in the middle of a frame.
            if self._shared is None or transport is None or transport.get_write_buffer_size():
                return False
            try:
                sent = self._shared.send(frame, socket.MSG_DONTWAIT)
                if sent < len(frame):
                    # No other frame may follow a part of one.
                    self._shared.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False
        return sent == len(frame)

    def close(self) -> None:
        """Drop what is not written, and close the socket."""
        self.detach()
        if self._transport is not None:
            self._transport.abort()

    def detach(self) -> None:
        """Send nothing more from other threads."""
        with self._lock:
            if self._shared is not None:
                self._shared.close()
                self._shared = None

    def lost(self) -> None:
        """The transport has closed the socket."""
        self._transport = None
        self.detach()

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if self._transport is not None and not self._transport.is_closing():
            with self._lock:
                self._transport.write(b"".join(frames))
