"""The bytes of a connection, and TLS around them."""

import asyncio
import fcntl
import logging
import os
import socket
import ssl
import struct
import termios
import threading
from typing import Final

log = logging.getLogger(__name__)

# TLS of one connection, between two buffers: it knows no socket and no event loop.
#
# The transports of an event loop encrypt only where the loop runs; this does in any thread.


# More than a TLS record holds (RFC 8446, section 5.1): each call decrypts one.
_READ_BYTES: Final = 1 << 15


class TlsCodec:
    """Encrypts and decrypts the two directions of one client connection.

    The methods may be called from any thread, but never two at the same time. Each ciphertext must
    be sent in the order in which it was returned.

    Attributes:
        is_open: whether the handshake is done; nothing can be encrypted before.
        is_at_end: whether the server has closed its direction.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        self.is_open = False
        self.is_at_end = False

    def encrypt(self, data: bytes) -> bytes:
        """Ciphertext of ``data``, after what TLS itself has to say.

        Raises:
            ssl.SSLError: the connection cannot be used any more.
        """
        written = self._tls.write(data) if data else 0
        while written < len(data):
            written += self._tls.write(memoryview(data)[written:])
        return self._to_send.read()

    def decrypt(self, data: bytes) -> bytes:
        """What ``data`` completes; first the handshake. Afterwards `take_own` has an answer.

        Raises:
            ssl.SSLError: the server is not trusted, or the connection cannot be used any more.
        """
        self._received.write(data)
        parts: list[bytes] = []
        try:
            if not self.is_open:
                self._tls.do_handshake()
                self.is_open = True
            # Not until it wants more: that is an exception for each small reply.
            while self._received.pending or self._tls.pending():
                if not (part := self._tls.read(_READ_BYTES)):
                    self.is_at_end = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass  # the rest is still to come
        return b"".join(parts)

    def take_own(self) -> bytes:
        """Ciphertext of TLS itself: parts of the handshake, alerts, new keys."""
        return self._to_send.read()


# The bytes of a connection, and TLS around them.
#
# The event loop reads and writes them, and while it is busy, another thread may send a frame
# between two of the loop's. The thread uses a descriptor of its own for the same socket: the loop
# may close its own at any time, and the system may give that number to another file. For the same
# reason TLS is not left to the transport of the loop.


_INT = struct.Struct("i")


class Stream:
    """Writes whole frames in their order; `send_now` is for another thread, the rest for the loop.

    Attributes:
        last_sent_s: when the loop last wrote a frame, on the loop's clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: TlsCodec | None = None) -> None:
        self._loop = loop
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._is_gathering = False
        self._is_paused = False
        self.last_sent_s = loop.time()
        # Guards the socket's stream of bytes, ``_tls``, ``_shared`` and ``_rest``. Nothing blocks
        # while it is held. The transport might report the end of the socket from inside a write:
        # hence an RLock.
        self._lock = threading.RLock()
        self._shared: socket.socket | None = None
        # What the socket did not take of a frame of another thread. It goes before all others.
        self._rest = b""

    def open(self, transport: asyncio.Transport) -> None:
        """Write to ``transport`` from now on; over TLS, once its handshake is done."""
        self._transport = transport
        if self._tls is not None:
            self.read(b"")

    @property
    def is_at_end(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._tls is not None and self._tls.is_at_end

    def write(self, frame: bytes) -> None:
        """Write a frame: at once if it is the first of this turn of the loop.

        Later frames of the turn leave together at its end.
        """
        self._frames.append(frame)
        self.last_sent_s = self._loop.time()
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._turn_over)
            self._flush()

    def read(self, data: bytes) -> bytes:
        """The plain bytes of what the socket has received.

        Raises:
            ssl.SSLError: the server is not trusted, or the connection cannot be used any more.
        """
        tls = self._tls
        if tls is None:
            return data
        was_open = tls.is_open
        with self._lock:
            try:
                plain = tls.decrypt(data)
            finally:
                # The alert with the reason for the server, too.
                if (own := tls.take_own()) and self._transport is not None:
                    self._transport.write(self._rest + own)
                    self._rest = b""
        if tls.is_open and not was_open:
            self._flush()
        return plain

    def pause(self) -> None:
        """Read nothing more for now; the system holds it, and then the server."""
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def share(self) -> bool:
        """Allow `send_now`; False when closed."""
        if self._transport is None:
            return False
        own = self._transport.get_extra_info("socket")
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
            if not self._push(self._shared):
                return False
            try:
                self._rest = frame if self._tls is None else self._tls.encrypt(frame)
            except ssl.SSLError:
                return False
            self._push(self._shared)
            return True

    def unread_bytes(self) -> int:
        """Bytes that have arrived and that the loop has not read, from any thread; 0 if closed."""
        with self._lock:
            if self._shared is None:
                return 0
            try:
                found = fcntl.ioctl(self._shared, termios.FIONREAD, _INT.pack(0))
            except OSError:
                return 0
        (unread,) = _INT.unpack(found)
        return int(unread)

    def _push(self, shared: socket.socket) -> bool:
        """Send the rest of the last frame; False if there is still a rest."""
        try:
            if self._rest:
                self._rest = self._rest[shared.send(self._rest, socket.MSG_DONTWAIT) :]
        except OSError:
            return False
        return not self._rest

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

    def _turn_over(self) -> None:
        self._is_gathering = False
        if self._frames:
            self._flush()

    def _flush(self) -> None:
        transport, tls = self._transport, self._tls
        if transport is None or transport.is_closing():
            self._frames.clear()
            return
        if tls is not None and not tls.is_open:
            return
        frames, self._frames = self._frames, []
        data = b"".join(frames)
        with self._lock:
            try:
                if tls is not None:
                    data = tls.encrypt(data)
            except ssl.SSLError as error:
                log.warning("cannot encrypt: %s", error)
                transport.abort()
            else:
                transport.write(self._rest + data)
                self._rest = b""
