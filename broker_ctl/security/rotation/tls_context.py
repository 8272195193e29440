"""A TLS context whose handshakes use the newest certificates.

Servers and clients keep the context that they are given. Each handshake of this one is made by the
context that is current then; connections that exist keep theirs. A new context also has new keys
for session tickets: nobody resumes a session of certificates that are not trusted any more.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Any, Self


class ReloadableContext(ssl.SSLContext):
    """Delegates each handshake to ``newest()``, which must always be for the same side."""

    newest: Callable[[], ssl.SSLContext]

    def __new__(cls, newest: Callable[[], ssl.SSLContext]) -> Self:
        """A context of its own kind; it has no certificates, and is used for no handshake."""
        made = super().__new__(cls, newest().protocol)
        made.newest = newest
        return made

    def __init__(self, newest: Callable[[], ssl.SSLContext]) -> None:
        """See `__new__`."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`; asyncio and uvloop begin each handshake with it."""
        return self.newest().wrap_bio(*arguments, **named)

    def wrap_socket(self, sock: socket.socket, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """See `ssl.SSLContext.wrap_socket`."""
        return self.newest().wrap_socket(sock, *arguments, **named)
