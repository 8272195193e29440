"""Limits by client: rates of requests, and delays of failed authentications."""

import asyncio
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.kinds import Counter

# The origin of a connection: the address that limits are counted by.


_UNKNOWN: Final = "an unknown address"
# A host of IPv6 has a whole network of this many bits to choose its addresses from.
_NETWORK_BITS: Final = 64


def origin_of(transport: asyncio.BaseTransport) -> str:
    """Return the client's IPv4 address, or the network of its IPv6 address."""
    return origin_of_address(transport.get_extra_info("peername"))


def origin_of_address(name: object) -> str:
    """As `origin_of`, by the address of a socket."""
    if not isinstance(name, tuple):
        return _UNKNOWN
    try:
        address = ip_address(str(name[0]).partition("%")[0])
    except ValueError:
        return _UNKNOWN
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = int(address) >> _NETWORK_BITS << _NETWORK_BITS
    return f"{IPv6Address(network)}/{_NETWORK_BITS}"


# Leaky buckets, one for each key, in bounded memory.
#
# A bucket is one number: the time at which it will have leaked empty (the generic cell rate
# algorithm of ITU-T I.371, annex A). An empty bucket is the same as none, so it can be forgotten
# at any time.


MAX_BUCKETS: Final = 16_384
# Empty buckets are looked for at most once in this time, so that a full table costs little.
_SWEEP_INTERVAL_S: Final = 1.0
# Shared by all keys for which there is no room.
_OTHERS: Final = ""


class Buckets:
    """The levels of all keys, in seconds of leaking.

    If as many buckets as there may be are not empty, further keys share one: those that are known
    already keep theirs.
    """

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._empty_at_s: dict[str, float] = {}
        self._next_sweep_s = 0.0

    def __len__(self) -> int:
        return len(self._empty_at_s)

    def level_s(self, key: str, now_s: float) -> float:
        """The time until the bucket is empty; 0: it is."""
        empty_at_s = self._empty_at_s.get(key)
        if empty_at_s is None:
            empty_at_s = self._empty_at_s.get(self._place_of(key, now_s), 0.0)
        return max(0.0, empty_at_s - now_s)

    def highest_s(self, now_s: float) -> float:
        """The time until the fullest bucket is empty; 0: all are."""
        return max(0.0, max(self._empty_at_s.values(), default=now_s) - now_s)

    def pour(self, key: str, added_s: float, now_s: float) -> None:
        """Raise the level by ``added_s``."""
        place = self._place_of(key, now_s)
        self._empty_at_s[place] = max(self._empty_at_s.get(place, 0.0), now_s) + added_s

    def _place_of(self, key: str, now_s: float) -> str:
        if key in self._empty_at_s or len(self._empty_at_s) < self._max_buckets:
            return key
        if now_s >= self._next_sweep_s:
            self._next_sweep_s = now_s + _SWEEP_INTERVAL_S
            self._empty_at_s = {
                place: empty_at_s
                for place, empty_at_s in self._empty_at_s.items()
                if empty_at_s > now_s
            }
        return key if len(self._empty_at_s) < self._max_buckets else _OTHERS


# How long the answer to a failed authentication is delayed, by address.
#
# Only answers to failures are delayed: a right token is never asked to wait, also from an address
# that has sent many wrong ones, so nobody is locked out by a neighbour. The delay starts after
# some failures, doubles with each one and is bounded; one failure is forgotten every ten seconds.
# Failures over HTTP and over the binary protocol count together.


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


# Requests per second: of all clients together, of one address and of one role.
#
# Each limit is a token bucket that holds the tokens of one second. Addresses of IPv6 with the
# same 64 bits at the front are one (`origins`). The address is the one of the connection: headers
# such as X-Forwarded-For are the client's own words.


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
