"""The network of simulated broker processes and their clients: frames of bytes, both ways.

It is a protocol, so that deterministic tests run it in memory; the live one is
`replication/tcp.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

# A longer frame ends its connection.
MAX_FRAME_BYTES: Final = 8 << 20


class ChannelClosed(Exception):
    """The other end is gone, or was never reachable. Never leaves this package."""


class Channel(Protocol):
    """One connection. Frames arrive whole, once and in order, until it is closed."""

    @property
    def proven_brokers(self) -> frozenset[int] | None:
        """Numbers of brokers that the certificate of the other end proves; None: without TLS."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send a frame; waits while the other end does not read.

        Raises:
            ChannelClosed: the frame will not arrive.
        """
        ...

    async def receive(self) -> bytes:
        """The next frame; waits as long as it takes.

        Raises:
            ChannelClosed: the other end closed, or the frame was too long.
        """
        ...

    def close(self) -> None:
        """Close the connection. May be repeated."""
        ...


class Listener(Protocol):
    """A listening address."""

    async def close(self) -> None:
        """Accept no more connections; servers close the accepted ones."""
        ...


class Network(Protocol):
    """Addresses are ``host:port``."""

    async def listen(self, address: str, serve: Callable[[Channel], Awaitable[None]]) -> Listener:
        """Run ``serve`` for each accepted connection, and close the channel when it returns.

        Raises:
            OSError: the address is taken, or not ours.
        """
        ...

    async def connect(self, address: str) -> Channel:
        """A connection.

        Raises:
            ChannelClosed: no listener at the address.
        """
        ...
