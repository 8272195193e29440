"""TLS of one connection, between two buffers: it knows no socket and no event loop.

The transports of an event loop encrypt only where the loop runs; this does in any thread.
"""

import ssl
from typing import Final

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
