"""Looks up a name of the network, which may stand for several servers.

A headless service of Kubernetes, or round-robin DNS, has one name for all servers. Each address is
a server for itself, with a limit of its own: a silent one must not use up the time of the others.

uvloop's `create_connection` looks a name up in a future of its own and leaves it behind when the
caller gives up; what becomes of the lookup is then logged as an exception that nobody retrieved.
Here the lookup is awaited, so that it ends with its caller.
"""

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

LOCALHOST: Final = "127.0.0.1"


def reached_at(host: str) -> str:
    """The name or address to connect to for a host: of those of ``localhost`` one alone.

    Where it is ``::1`` too, another user of the machine may listen there at the same port, and
    would get what is meant for the listener on 127.0.0.1.
    """
    return LOCALHOST if host == "localhost" else host


@dataclass(frozen=True, slots=True)
class Server:
    """A server at one address of its name.

    Attributes:
        host: the name as it was given, which a certificate has to be for.
        label: for operators; has the address if the name has several.
        failure: why the name has no address; empty: it has one.
    """

    host: str
    port: int
    label: str
    found: str = ""
    failure: str = ""

    @property
    def address(self) -> str:
        """Where to connect.

        Raises:
            OSError: the name has no address.
        """
        if self.failure:
            raise OSError(self.failure)
        return self.found

    def __str__(self) -> str:
        return self.label


async def look_up(host: str, port: int, limit_s: float) -> list[Server]:
    """Each address of a name; one server with a failure if there is none within the limit."""
    loop = asyncio.get_running_loop()
    label = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(limit_s):
            found = await loop.getaddrinfo(reached_at(host), port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return [Server(host, port, label, failure=f"the name was not found within {limit_s:g} s")]
    except (OSError, UnicodeError) as error:  # a name that cannot be one is a UnicodeError
        return [Server(host, port, label, failure=str(error))]
    addresses = list(dict.fromkeys(_text(address) for *_, address in found))
    if len(addresses) == 1:
        return [Server(host, port, label, addresses[0])]
    return [Server(host, port, f"{label} at {one}", one) for one in addresses]


async def look_up_all(hosts: Iterable[tuple[str, int]], limit_s: float) -> list[Server]:
    """Each address of each name, in the order of ``hosts``; the names are looked up at once."""
    async with asyncio.TaskGroup() as group:
        lookups = [
            group.create_task(look_up(*host, limit_s), name=f"address of {host[0]}")
            for host in hosts
        ]
    return [server for one in lookups for server in one.result()]


def _text(address: tuple[Any, ...]) -> str:
    """An address of a socket as a text; that of a link names its interface."""
    host = str(address[0])
    is_of_link = len(address) == 4 and address[3] and "%" not in host
    return f"{host}%{address[3]}" if is_of_link else host
