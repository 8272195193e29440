"""All connections of the binary server, and their common limits."""

from typing import Final, Protocol

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import ServerError
from broker_ctl.api.binary.workers import Workers
from broker_ctl.instruments.binary import BinaryInstruments
from broker_ctl.tasks import wait_until

_POLL_S: Final = 0.02
_SLACK_S: Final = 0.5
# Number of refused clients that get the reason concurrently; others are disconnected at once.
_MAX_REFUSED: Final = 256


class Client(Protocol):
    """A `connection.Connection`."""

    def leave(self, parting: bytes = b"") -> None:
        """End it, after these last words."""
        ...

    def abort(self) -> None:
        """End it now."""
        ...


class Clients:
    """Admits clients up to a limit."""

    def __init__(
        self, rules: BinaryRules, workers: Workers, instruments: BinaryInstruments
    ) -> None:
        self.rules = rules
        self.workers = workers
        self.instruments = instruments
        self._admitted: set[Client] = set()
        self._refused: set[Client] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, client: Client) -> None:
        """Let it in, or leave it."""
        limit = self.rules.max_connections
        if self._is_closed:
            # Its TLS handshake took longer than the shutdown of the other connections.
            client.abort()
            return
        if len(self._admitted) < limit:
            self._admitted.add(client)
            return
        self.instruments.refused_connections.add()
        if len(self._refused) < _MAX_REFUSED:
            self._refused.add(client)
            reason = f"{limit} clients are connected already"
            why = ServerError.ServiceNotReady
            client.leave(replies.error(replies.NO_REQUEST, why, reason))
        else:
            client.abort()

    def forget(self, client: Client) -> None:
        """It has gone."""
        self._admitted.discard(client)
        self._refused.discard(client)

    async def part(self) -> None:
        """End all connections; what is on its way to a client may still reach it."""
        self._is_closed = True
        for client in (*self._admitted, *self._refused):
            client.leave()
        # Connections abort clients that do not close in time.
        await wait_until(self._are_gone, self.rules.linger_s + _SLACK_S, _POLL_S)

    async def _are_gone(self) -> bool:
        return not self._admitted and not self._refused
