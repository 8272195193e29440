"""How long the answer to a failed authentication is delayed, by address.

Only answers to failures are delayed: a right token is never asked to wait, also from an address
that has sent many wrong ones, so nobody is locked out by a neighbour. The delay starts after some
failures, doubles with each one and is bounded; one failure is forgotten every ten seconds. Failures
over HTTP and over the binary protocol count together.
"""

from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.instruments.kinds import Counter
from broker_ctl.security.client_limits.buckets import Buckets

_PROTOCOLS: Final = ("http", "binary")
_FORGET_S: Final = 10.0
# A wrong token in a script, or a restart of several clients, is not slowed down.
_FREE_FAILURES: Final = 10
_FIRST_DELAY_S: Final = 0.1
# What is remembered of one address, however many failures there were: five minutes.
_MAX_FAILURES: Final = 30


class FailureDelays:
    """Failures of all addresses; in bounded memory, see `Buckets`.

    Args:
        max_delay_s: 0: answers are not delayed.
        failures: counts failures by protocol.
    """

    def __init__(self, max_delay_s: float, clock: Clock, failures: Counter) -> None:
        self._max_delay_s = max_delay_s
        self._clock = clock
        self._failures = failures
        self._buckets = Buckets()
        for protocol in _PROTOCOLS:
            failures.start(protocol)

    def record(self, origin: str, protocol: str) -> float:
        """Count a failure of an address; the seconds to wait before the answer."""
        self._failures.add(protocol)
        now_s = self._clock.now_s()
        before_s = self._buckets.level_s(origin, now_s)
        if before_s < _MAX_FAILURES * _FORGET_S:
            self._buckets.pour(origin, _FORGET_S, now_s)
        excess = before_s / _FORGET_S - _FREE_FAILURES
        return min(self._max_delay_s, _FIRST_DELAY_S * 2**excess) if excess >= 0 else 0.0
