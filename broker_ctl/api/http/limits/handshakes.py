"""TLS handshakes of clients, counted from the moment at which their sockets are accepted.

asyncio's servers announce a connection over TLS when its handshake is done: until then a socket
that says nothing would be counted by nobody. So the sockets of TLS ports are accepted here, and
begin their handshake once they are counted.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

from broker_ctl.api.http.limits import connections
from broker_ctl.api.http.limits.acceptor import Acceptor, Make
from broker_ctl.api.http.limits.connections import Strangers
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.client_limits import origin_of_address
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MOST: Final = 1_024
_MOST_OF_ADDRESS: Final = 256
_LIMIT_S: Final = 10.0
# How long a client that is disconnected may take to say goodbye.
_GOODBYE_S: Final = 1.0
# In one turn of the event loop: the first step of a handshake takes up to a millisecond.
_MOST_IN_TURN: Final = 4


@dataclass(eq=False, slots=True)
class _Handshake:
    """One in progress.

    Attributes:
        client: its socket; None: a transport has it.
    """

    client: socket.socket | None
    task: asyncio.Task[None] | None = None

    def give_up(self) -> None:
        if self.client is not None:
            self.client.close()
        if self.task is not None:
            self.task.cancel()


class Handshakes:
    """The TLS ports of one server, and the handshakes in progress there.

    Where there are too many, of one address or of all, the oldest is given up: a newcomer always
    has time for its own.

    Attributes:
        limit: how many there may be.
        refused: how many were given up so far to make room.
    """

    def __init__(self, limit_s: float = _LIMIT_S) -> None:
        self.limit = connections.cap(_MOST, connections.HANDSHAKES)
        self.refused = 0
        self._limit_s = limit_s
        self._limit_of_address = max(1, min(_MOST_OF_ADDRESS, self.limit // 2))
        self._begun: Strangers[_Handshake] = Strangers()
        self._acceptors: list[Acceptor] = []
        self._tasks = TaskScope("TLS handshakes")

    def __len__(self) -> int:
        return len(self._begun)

    def show(self, bounds: BoundInstruments, name: str) -> None:
        """Show them as a bound of this name."""
        bounds.follow(
            name, used=lambda: len(self), limit=lambda: self.limit, refused=lambda: self.refused
        )

    async def listen(
        self, make: Make, tls: SSLContext, address: str, port: int, backlog: int
    ) -> int:
        """Listen; the number of the port. ``make`` makes the protocol of a connection.

        Raises:
            OSError: the address is in use, or not this machine's.
        """

        def begin(client: socket.socket, name: tuple[str, int]) -> None:
            self._begin(client, origin_of_address(name), make, tls)

        acceptor = Acceptor(begin, _MOST_IN_TURN)
        number = await acceptor.listen(address, port, backlog)
        self._acceptors.append(acceptor)
        return number

    async def close(self) -> None:
        """Stop listening, and give up what is in progress."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        while (one := self._begun.oldest()) is not None:
            self._give_up(one)
        await self._tasks.close()

    def _begin(self, client: socket.socket, origin: str, make: Make, tls: SSLContext) -> None:
        if self._begun.count_of(origin) >= self._limit_of_address:
            self._refuse(self._begun.oldest_of(origin))
        elif len(self._begun) >= self.limit:
            self._refuse(self._begun.oldest())
        one = _Handshake(client)
        self._begun.add(one, origin)
        one.task = self._tasks.start(self._shake_hands(one, make, tls), "handshake")

    async def _shake_hands(self, one: _Handshake, make: Make, tls: SSLContext) -> None:
        client, one.client = one.client, None
        assert client is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                make,
                client,
                ssl=tls,
                ssl_handshake_timeout=self._limit_s,
                ssl_shutdown_timeout=_GOODBYE_S,
            )
        except OSError as error:
            # Clients of all kinds come and go.
            log.debug("a TLS handshake has failed: %s", error)
        finally:
            self._begun.discard(one)

    def _give_up(self, one: _Handshake) -> None:
        self._begun.discard(one)
        one.give_up()

    def _refuse(self, one: _Handshake | None) -> None:
        if one is not None:
            self.refused += 1
            self._give_up(one)
