"""Which server to try next, and when."""

import logging
import random
from collections.abc import Sequence
from typing import Final

from broker_ctl.retry import Backoff

log = logging.getLogger(__name__)

_FIRST_DELAY_S: Final = 0.05
# A short cap while the session may still live: the servers of an ensemble that elects a leader
# refuse every client, and we should reach the first one that serves again within this time.
_LIVE_DELAY_S: Final = 0.25
_MIN_LIMIT_S: Final = 0.2
_MAX_LIMIT_S: Final = 2.0


class Dialer:
    """Walks through shuffled hosts; pauses grow, with full jitter, after each whole round.

    Docs: pulsar-session-watcher.
    """

    def __init__(self, hosts: Sequence[tuple[str, int]], rng: random.Random) -> None:
        self._hosts = list(hosts)
        self._rng = rng
        rng.shuffle(self._hosts)
        self._next = 0
        self._failures = 0

    def next_host(self) -> tuple[str, int]:
        """The server after the one that was tried last."""
        host = self._hosts[self._next % len(self._hosts)]
        self._next += 1
        return host

    def limit_s(self, timeout_s: float) -> float:
        """How long one attempt may take."""
        return max(_MIN_LIMIT_S, min(timeout_s / (3 * len(self._hosts)), _MAX_LIMIT_S))

    def succeeded(self) -> None:
        """The next outage starts with an attempt at once."""
        self._failures = 0

    def failed(self, host: tuple[str, int], why: str) -> None:
        """Count a failure.

        Only powers of two are logged as warnings, so a long outage has a short log.
        """
        self._failures += 1
        level = logging.WARNING if self._is_power else logging.DEBUG
        log.log(level, "no session from %s:%d, attempt %d: %s", *host, self._failures, why)

    @property
    def _is_power(self) -> bool:
        return self._failures & (self._failures - 1) == 0

    @property
    def is_at_a_loss(self) -> bool:
        """Whether to check for another cause: at intervals, once each server has failed twice."""
        return self._is_power and self._failures >= 2 * len(self._hosts)

    def delay_s(self, timeout_s: float, outage_s: float) -> float:
        """Pause before the next attempt; none until every server has been tried once more."""
        rounds, tried = divmod(self._failures, len(self._hosts))
        if tried or not rounds:
            return 0.0
        cap_s = timeout_s / 10
        if outage_s < timeout_s:
            cap_s = min(cap_s, _LIVE_DELAY_S)
        return Backoff(_FIRST_DELAY_S, 2.0, cap_s).delay_s(rounds, self._rng)
