"""Reserves ports for servers until they listen, and while they restart."""

import socket
from typing import Final

from broker_ctl.errors import EmbeddedError

LOOPBACK: Final = "127.0.0.1"


def reserve_port(port: int = 0) -> socket.socket:
    """Reserve ``port``, or any free one for 0, on the loopback address; close it to release.

    The socket is bound but never listens. Linux lets a second socket with SO_REUSEADDR, which Java
    sets, bind and listen beside it, and does not assign the port to others. Without it a connection
    of any process could get the port before the server is up.

    Raises:
        EmbeddedError: another process listens on the port, or it may not be used.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:
            # A port with connections in TIME_WAIT is free, one with a listener is not. An unnamed
            # port must have neither, so there the option is set after binding.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except (OSError, OverflowError) as error:
        held.close()
        raise EmbeddedError(f"port {port} on {LOOPBACK} cannot be used: {error}") from error
    return held


def port_of(held: socket.socket) -> int:
    """The port of a reservation."""
    address: tuple[str, int] = held.getsockname()
    return address[1]
