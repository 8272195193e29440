"""Connects to a server by its name.

uvloop's `create_connection` looks a name up in a future of its own and leaves it behind when the
caller gives up; what becomes of the lookup is then logged as an exception that nobody retrieved.
Here the lookup is awaited, so that it ends with its caller.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker_ctl.settings.addresses import reached_at

log = logging.getLogger(__name__)

_T = TypeVar("_T")


async def first_reachable(host: str, port: int, connect: Callable[[str], Awaitable[_T]]) -> _T:
    """What ``connect`` returns for the first address of ``host`` that takes the connection.

    Raises:
        OSError: there is no such name, or the last of its addresses is not reachable.
        UnicodeError: a name that cannot be one.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(reached_at(host), port, type=socket.SOCK_STREAM)
    *others, last = dict.fromkeys(_text(address) for *_, address in found)
    for address in others:
        try:
            return await connect(address)
        except OSError as error:
            log.debug("%s, an address of %s: %s; the next one is tried", address, host, error)
    return await connect(last)


def _text(address: tuple[Any, ...]) -> str:
    """An address of a socket as a text; that of a link names its interface."""
    host = str(address[0])
    is_of_link = len(address) == 4 and address[3] and "%" not in host
    return f"{host}%{address[3]}" if is_of_link else host
