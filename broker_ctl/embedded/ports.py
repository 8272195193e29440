"""Ports that stay free for a server until it listens, and while it restarts."""

import socket
from typing import Final

from broker_ctl.errors import EmbeddedError

LOOPBACK: Final = "127.0.0.1"


def reserve_port(port: int = 0) -> socket.socket:
    """Hold ``port``, or any free one for 0, on the loopback address; close it to let go.

    The socket is bound but never listens. Linux lets a second socket with SO_REUSEADDR, as Java
    opens them, bind and listen beside it, and does not hand the port out as a free one.
    Without it any connection of any process could take the port before the server is up.

    Raises:
        EmbeddedError: another process listens on the port, or it may not be used.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:
            # A port whose last connections linger in TIME_WAIT is free, one that is listened on
            # is not. An unnamed port must be free of both, so there the option comes after.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except (OSError, OverflowError) as error:
        held.close()
        raise EmbeddedError(f"port {port} on {LOOPBACK} cannot be used: {error}") from error
    return held


def port_of(held: socket.socket) -> int:
    """The port that a reservation holds."""
    address: tuple[str, int] = held.getsockname()
    return address[1]
