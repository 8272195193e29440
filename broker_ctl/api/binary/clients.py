"""All connections of the binary server, and their common limits."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from math import inf
from typing import Final, Protocol

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import ServerError
from broker_ctl.api.binary.ready_answers import AnswersOf
from broker_ctl.api.binary.workers import Workers
from broker_ctl.instruments.clients import BinaryInstruments, BoundInstruments
from broker_ctl.security.authorization import Client
from broker_ctl.security.client_limits import FailureDelays, RequestRates
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

_POLL_S: Final = 0.02
_SLACK_S: Final = 0.5
_RECHECKED_A_TURN: Final = 32
_TRIM_DELAY_S: Final = 0.05
_WARNING_INTERVAL_S: Final = 60


class ReadyLookups(Protocol):
    """See `lookups.Lookups`."""

    def ready(self, client: Client | None, *, is_tls: bool) -> AnswersOf | None:
        """The answers to such clients that hold until the caller waits."""
        ...

    def now_s(self) -> float:
        """The time on the clock of `count_ready`."""
        ...

    def count_ready(self, began_s: float) -> None:
        """Count the lookups that they have answered since then."""
        ...


class BinaryClient(Protocol):
    """A `connection.Connection`."""

    def leave(self, parting: bytes = b"") -> None:
        """End it, after these last words."""
        ...

    def abort(self) -> None:
        """End it now."""
        ...

    def recheck(self) -> None:
        """End it if its client would not be admitted any more."""
        ...


class Clients:
    """Admits clients up to a limit, and lets a smaller number wait for their CONNECT.

    Waiting clients take no places of admitted ones. Where too many wait, of one address or of all,
    the one that has waited longest is disconnected: a newcomer always has time for its CONNECT.

    Attributes:
        refused: how many found no place so far.
        given_up: how many waited for their CONNECT, and were disconnected to make room.
    """

    def __init__(
        self,
        rules: BinaryRules,
        workers: Workers,
        rates: RequestRates,
        failures: FailureDelays,
        instruments: BinaryInstruments,
        *,
        ready: ReadyLookups,
    ) -> None:
        self.rules = rules
        self.workers = workers
        self.ready = ready
        self.rates = rates if rates.limits_addresses or rates.limits_roles else None
        self.failures = failures
        self.instruments = instruments
        # With their addresses.
        self._admitted: dict[BinaryClient, str] = {}
        self._admitted_of: Counter[str] = Counter()
        self._refused: set[BinaryClient] = set()
        # In the order of their arrival.
        self._waiting: dict[BinaryClient, str] = {}
        self._waiting_at: defaultdict[str, dict[BinaryClient, None]] = defaultdict(dict)
        self._trim_timer: asyncio.TimerHandle | None = None
        self._next_warning_s = 0.0
        self._is_closed = False
        self.refused = 0
        self.given_up = 0

    def show(self, bounds: BoundInstruments) -> None:
        """Show the places of both kinds as bounds."""
        bounds.follow(
            "binary-connections",
            used=lambda: len(self._admitted),
            limit=lambda: self.rules.max_connections or inf,
            refused=lambda: self.refused,
        )
        bounds.follow(
            "binary-waiting",
            used=lambda: len(self._waiting),
            limit=lambda: self.rules.max_waiting,
            refused=lambda: self.given_up,
        )

    def __len__(self) -> int:
        return len(self._admitted) + len(self._waiting)

    def receive(self, client: BinaryClient, address: str) -> None:
        """Wait for its CONNECT, or leave it."""
        if self._is_closed:
            # It was accepted while the others were shut down.
            client.abort()
        elif reason := self._full(address):
            self.refused += 1
            self._refuse(client, reason)
        else:
            self._waiting[client] = address
            self._waiting_at[address][client] = None
            is_crowded = len(self._waiting_at[address]) > self.rules.max_waiting_of_address
            if is_crowded or len(self._waiting) > self.rules.max_waiting:
                self._trim_soon()
            if len(self._waiting) > 2 * self.rules.max_waiting:
                # Descriptors would run out before the next turn.
                self._trim()

    def admit(self, client: BinaryClient) -> bool:
        """Give a client with a valid CONNECT a place, or leave it; return whether it has one."""
        address = self._stop_waiting(client)
        if reason := self._full(address):
            self.refused += 1
            self._refuse(client, reason)
            return False
        self._admitted[client] = address
        self._admitted_of[address] += 1
        return True

    def forget(self, client: BinaryClient) -> None:
        """It has gone."""
        self._stop_waiting(client)
        address = self._admitted.pop(client, None)
        if address is not None:
            self._admitted_of[address] -= 1
            if not self._admitted_of[address]:
                del self._admitted_of[address]
        self._refused.discard(client)

    def recheck(self) -> None:
        """End the connections of admitted clients whose tokens or keys do not count any more."""
        self._recheck_some([*self._admitted])

    def _recheck_some(self, left: list[BinaryClient]) -> None:
        # A signature takes some 0.1 ms to verify, and there may be thousands of clients.
        for client in left[:_RECHECKED_A_TURN]:
            client.recheck()
        if left := left[_RECHECKED_A_TURN:]:
            asyncio.get_running_loop().call_soon(self._recheck_some, left)

    async def part(self) -> None:
        """End all connections; what is on its way to a client may still reach it."""
        self._is_closed = True
        if self._trim_timer is not None:
            self._trim_timer.cancel()
        for client in (*self._admitted, *self._waiting, *self._refused):
            client.leave()
        # Connections abort clients that do not close in time.
        await wait_until(self._are_gone, self.rules.linger_s + _SLACK_S, _POLL_S)

    async def _are_gone(self) -> bool:
        return not self._admitted and not self._waiting and not self._refused

    def _full(self, address: str) -> str:
        """Why there is no place for a client of this address; empty: there is one."""
        rules = self.rules
        if rules.max_connections and len(self._admitted) >= rules.max_connections:
            return f"{rules.max_connections} clients are connected already"
        limit = rules.max_connections_of_address
        if limit and self._admitted_of[address] >= limit:
            return f"{limit} clients of {address} are connected already"
        return ""

    def _refuse(self, client: BinaryClient, reason: str) -> None:
        self.instruments.refused_connections.add()
        if len(self._refused) < self.rules.max_refused:
            self._refused.add(client)
            why = ServerError.ServiceNotReady
            client.leave(replies.error(replies.NO_REQUEST, why, reason))
        else:
            client.abort()

    def _stop_waiting(self, client: BinaryClient) -> str:
        """Return its address; empty: it does not wait."""
        address = self._waiting.pop(client, None)
        if address is None:
            return ""
        of_address = self._waiting_at[address]
        del of_address[client]
        if not of_address:
            del self._waiting_at[address]
        return address

    def _trim_soon(self) -> None:
        # Clients of a dead broker arrive in one iteration of the loop, and their CONNECTs are read
        # in the next: they are not too many until then.
        if self._trim_timer is None:
            loop = asyncio.get_running_loop()
            self._trim_timer = loop.call_later(_TRIM_DELAY_S, self._trim)

    def _trim(self) -> None:
        if self._trim_timer is not None:
            self._trim_timer.cancel()
            self._trim_timer = None
        rules = self.rules
        for address, of_address in [*self._waiting_at.items()]:
            self._refuse_oldest(of_address, rules.max_waiting_of_address, address)
        self._refuse_oldest(self._waiting, rules.max_waiting, "all addresses")

    def _refuse_oldest(
        self, waiting: Mapping[BinaryClient, object], limit: int, origin: str
    ) -> None:
        oldest = [*islice(waiting, max(0, len(waiting) - limit))]
        for client in oldest:
            self._stop_waiting(client)
            self.given_up += 1
            self._refuse(client, f"{limit} newer clients of {origin} have sent no CONNECT")
        if oldest:
            self._warn(limit, origin)

    def _warn(self, limit: int, origin: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_warning_s:
            self._next_warning_s = now_s + _WARNING_INTERVAL_S
            log.warning(
                "more than %d binary clients of %s have sent no CONNECT: disconnecting the oldest; "
                "the next such line comes after %d seconds at the earliest",
                limit,
                origin,
                _WARNING_INTERVAL_S,
            )
