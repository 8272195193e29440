"""How simulated broker processes and their clients reach each other: frames of bytes, both ways.

Behind a protocol, so that the deterministic composition runs it in memory; the live one is
`replication/tcp.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

# A longer frame ends its connection.
MAX_FRAME_BYTES: Final = 8 << 20


class ChannelClosed(Exception):
    """The other end is gone, or never was there. Never leaves the room of replication."""


class Channel(Protocol):
    """One connection. Frames arrive whole, once and in order, until it is closed."""

    async def send(self, frame: bytes) -> None:
        """Hand a frame over; waits while the other end takes nothing.

        Raises:
            ChannelClosed: it will not arrive.
        """
        ...

    async def receive(self) -> bytes:
        """The next frame; waits as long as it takes.

        Raises:
            ChannelClosed: there is none any more, or it was too long.
        """
        ...

    def close(self) -> None:
        """Hang up. May be repeated."""
        ...


class Listener(Protocol):
    """An address that is listened at."""

    async def close(self) -> None:
        """Take no more connections; those that were taken are their servers' to close."""
        ...


class Network(Protocol):
    """Addresses are ``host:port``."""

    async def listen(self, address: str, serve: Callable[[Channel], Awaitable[None]]) -> Listener:
        """Run ``serve`` for each connection that comes, and close the channel when it returns.

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
