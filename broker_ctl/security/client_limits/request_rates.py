"""Requests per second: of all clients together, of one address and of one role.

Each limit is a token bucket that holds the tokens of one second. Addresses of IPv6 with the same 64
bits at the front are one (`origins`). The address is the one of the connection: headers such as
X-Forwarded-For are the client's own words.
"""

from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.bounds import BoundInstruments
from broker_ctl.instruments.kinds import Counter
from broker_ctl.security.client_limits.buckets import Buckets

# As Guava's RateLimiter has it, with which Pulsar limits HTTP requests.
_BURST_S: Final = 1.0
_ALL: Final = "all clients"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Requests per second; 0: no limit.

    Attributes:
        total_per_s: of all clients.
        address_per_s: of one address.
        role_per_s: of one role.
    """

    total_per_s: float = 0.0
    address_per_s: float = 0.0
    role_per_s: float = 0.0


class RequestRates:
    """The rates of one protocol.

    Args:
        rejected: counts rejected requests, by protocol and limit.
    """

    def __init__(self, limits: RateLimits, protocol: str, clock: Clock, rejected: Counter) -> None:
        self._clock = clock
        self._protocol = protocol
        self._rejected = rejected
        self._total = _Limit("total", "all clients together", limits.total_per_s)
        self._address = _Limit("address", "this address", limits.address_per_s)
        self._role = _Limit("role", "this role", limits.role_per_s)
        for limit in (self._total, self._address, self._role):
            if limit.is_on:
                rejected.start(protocol, limit.name)
        self.limits_addresses = self._address.is_on or self._total.is_on
        self.limits_roles = self._role.is_on

    def show(self, bounds: BoundInstruments) -> None:
        """Show the limits that are on as bounds."""
        for limit in (self._total, self._address, self._role):
            if limit.is_on:
                limit.show(bounds, f"{self._protocol}-rate-{limit.name}", self._clock)

    def spend(self, origin: str) -> None:
        """Count a request of an address.

        Raises:
            TooManyRequests: the address, or all clients together, have sent too many.
        """
        # The address first: what it has too many of takes nothing from the others.
        self._spend(self._address, origin)
        self._spend(self._total, _ALL)

    def spend_of_role(self, role: str) -> None:
        """Count a request of an authenticated role.

        Raises:
            TooManyRequests: the role has sent too many.
        """
        self._spend(self._role, role)

    def _spend(self, limit: "_Limit", key: str) -> None:
        wait_s = limit.spend(key, self._clock.now_s())
        if wait_s > 0:
            limit.refused += 1
            self._rejected.add(self._protocol, limit.name)
            text = f"{limit.per_s:g} requests per second are allowed of {limit.of}"
            raise TooManyRequests(text, wait_s)


class _Limit:
    """One kind of limit; its name is the value of the metric's label.

    Attributes:
        refused: how many requests of it were rejected so far.
    """

    def __init__(self, name: str, of: str, per_s: float) -> None:
        self.name = name
        self.of = of
        self.per_s = per_s
        self.is_on = per_s > 0
        self.refused = 0
        self._buckets = Buckets()
        self._request_s = 1 / per_s if self.is_on else 0.0
        # One request is always allowed, however low the rate is.
        self._full_s = max(_BURST_S, self._request_s)

    def show(self, bounds: BoundInstruments, name: str, clock: Clock) -> None:
        bounds.follow(
            name,
            used=lambda: self._buckets.highest_s(clock.now_s()) / self._request_s,
            limit=lambda: self._full_s / self._request_s,
            refused=lambda: self.refused,
        )

    def spend(self, key: str, now_s: float) -> float:
        """Count a request; the seconds to wait before another try: more than 0 if it is refused."""
        if not self.is_on:
            return 0.0
        excess_s = self._buckets.level_s(key, now_s) + self._request_s - self._full_s
        # A remainder of the arithmetic is not an excess.
        if excess_s > self._request_s * 1e-6:
            return excess_s
        self._buckets.pour(key, self._request_s, now_s)
        return 0.0
