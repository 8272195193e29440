"""Listening sockets, and how many of their connections one turn of the event loop accepts.

uvloop's servers accept one connection in each turn, so that behind a flood an honest client waits
for as many turns as there are connections before its own; asyncio's accept as many as the backlog
has, and all else waits for them. Here a fixed number is accepted in each.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# In one turn, without TLS: some milliseconds of work at most.
_MOST: Final = 64
# As asyncio's servers wait where the process or the machine has nothing left.
_EXHAUSTED_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Make = Callable[[], asyncio.BaseProtocol]
# Takes a connection and the address of its client. The socket is the taker's from then on.
Take = Callable[[socket.socket, Any], None]


class Acceptor:
    """Listens on the addresses of one port from `listen` until `close`.

    Args:
        most: how many connections one turn of the loop accepts of each address.
    """

    def __init__(self, take: Take, most: int = _MOST) -> None:
        self._take = take
        self._most = most
        self._listening: dict[socket.socket, asyncio.TimerHandle | None] = {}

    async def listen(self, address: str, port: int, backlog: int) -> int:
        """Listen; the number of the port.

        Raises:
            OSError: the address is in use, or not this machine's.
        """
        loop = asyncio.get_running_loop()
        flags = socket.AI_PASSIVE
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)
        opened: list[socket.socket] = []
        try:
            for family, _, _, _, place in dict.fromkeys(found):
                opened.append(_listen(family, place, backlog))
        except OSError:
            for one in opened:
                one.close()
            raise
        for one in opened:
            self._listening[one] = None
            loop.add_reader(one, self._accept, one)
        number: int = opened[0].getsockname()[1]
        return number

    def close(self) -> None:
        """Accept no more; what is in the backlog is reset."""
        loop = asyncio.get_running_loop()
        for listening, pause in self._listening.items():
            if pause is None:
                loop.remove_reader(listening)
            else:
                pause.cancel()
            listening.close()
        self._listening.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._most):
            # `take` may have closed this acceptor.
            if listening not in self._listening:
                return
            try:
                client, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Any other is of the connection itself, which is gone: accept(2) says so.
                if error.errno in _EXHAUSTED:
                    self._pause(listening, error)
                    return
                continue
            client.settimeout(0)
            self._take(client, address)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Wait: the socket stays readable, and the loop would turn for nothing."""
        log.warning("cannot accept a connection: %s", error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._listening[listening] = loop.call_later(_EXHAUSTED_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self._listening[listening] = None
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)


class PlainPorts:
    """Ports in the clear of one server: each accepted socket becomes a connection at once.

    Args:
        owner: of the tasks, for the log.
    """

    def __init__(self, owner: str) -> None:
        self._tasks = TaskScope(owner)
        self._acceptors: list[Acceptor] = []

    async def listen(self, make: Make, address: str, port: int, backlog: int) -> int:
        """Listen; the number of the port. ``make`` makes the protocol of a connection.

        Raises:
            OSError: the address is in use, or not this machine's.
        """
        acceptor = Acceptor(partial(self._connect, make))
        number = await acceptor.listen(address, port, backlog)
        self._acceptors.append(acceptor)
        return number

    async def close(self) -> None:
        """Stop listening. Connections stay."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        await self._tasks.close()

    def _connect(self, make: Make, client: socket.socket, _: object) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step has given the socket to nobody.
            if task.cancelled():
                client.close()

        self._tasks.start(_connect(make, client), "connect").add_done_callback(ended)


async def _connect(make: Make, client: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(make, client)
    except OSError as error:
        log.debug("a connection was lost as it was accepted: %s", error)
        client.close()


def _listen(family: int, place: tuple[object, ...], backlog: int) -> socket.socket:
    """A socket that listens, as asyncio's servers open theirs."""
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.settimeout(0)
        opened.bind(place)
        opened.listen(backlog)
    except OSError:
        opened.close()
        raise
    return opened
