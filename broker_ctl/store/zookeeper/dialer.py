"""Which server to try next, at which address, and when."""

import logging
import random
from collections.abc import Sequence
from typing import Final

from broker_ctl.addresses import Server, look_up
from broker_ctl.retry import Backoff

log = logging.getLogger(__name__)

_FIRST_DELAY_S: Final = 0.05
# A short cap while the session may still live: the servers of an ensemble that elects a leader
# refuse every client, and we should reach the first one that serves again within this time.
_LIVE_DELAY_S: Final = 0.25
_MIN_LIMIT_S: Final = 0.2
_MAX_LIMIT_S: Final = 2.0


class Dialer:
    """Walks through shuffled servers; pauses grow, with full jitter, after each whole round.

    A name is looked up once in each round, and each of its addresses is an attempt for itself.
    Docs: pulsar-session-watcher.
    """

    def __init__(self, hosts: Sequence[tuple[str, int]], rng: random.Random) -> None:
        self._hosts = list(hosts)
        self._rng = rng
        rng.shuffle(self._hosts)
        self._next = 0
        # Of the name that comes now, and of each name when it was looked up last.
        self._waiting: list[Server] = []
        self._found = {host: [Server(*host, "")] for host in self._hosts}
        self._failures = 0

    async def next_server(self, timeout_s: float) -> Server:
        """The server after the one that was tried last; one with a failure if none was found.

        If a name cannot be looked up now, its addresses of the last time are tried.
        """
        if not self._waiting:
            host = self._hosts[self._next % len(self._hosts)]
            self._next += 1
            found = await look_up(*host, self.limit_s(timeout_s))
            if not found[0].failure or not self._found[host][0].found:
                self._found[host] = found
            self._waiting = list(self._found[host])
            self._rng.shuffle(self._waiting)
        return self._waiting.pop()

    def limit_s(self, timeout_s: float) -> float:
        """How long one attempt may take, so that each address can be tried in a third."""
        return max(_MIN_LIMIT_S, min(timeout_s / (3 * self._size), _MAX_LIMIT_S))

    def succeeded(self) -> None:
        """The next outage starts with an attempt at once."""
        self._failures = 0

    def failed(self, server: Server, why: str) -> None:
        """Count a failure.

        Only powers of two are logged as warnings, so a long outage has a short log.
        """
        self._failures += 1
        level = logging.WARNING if self._is_power else logging.DEBUG
        log.log(level, "no session from %s, attempt %d: %s", server, self._failures, why)

    @property
    def _size(self) -> int:
        """Servers that are known: one for a name that was not looked up yet."""
        return sum(map(len, self._found.values()))

    @property
    def _is_power(self) -> bool:
        return self._failures & (self._failures - 1) == 0

    @property
    def is_at_a_loss(self) -> bool:
        """Whether to check for another cause: at intervals, once each server has failed twice."""
        return self._is_power and self._failures >= 2 * self._size

    def delay_s(self, timeout_s: float, outage_s: float) -> float:
        """Pause before the next attempt; none until every server has been tried once more."""
        rounds, tried = divmod(self._failures, self._size)
        if tried or not rounds:
            return 0.0
        cap_s = timeout_s / 10
        if outage_s < timeout_s:
            cap_s = min(cap_s, _LIVE_DELAY_S)
        return Backoff(_FIRST_DELAY_S, 2.0, cap_s).delay_s(rounds, self._rng)
