"""Rate limits, and answers to failed authentications (docs: configure-rates)."""

import asyncio
from collections import Counter
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.authorization import client_of
from broker_ctl.api.http.access.peer_requests import BrokerCertificates, is_order, sender_of
from broker_ctl.api.http.access.route_rules import Access, Exempt
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.client_limits import FailureDelays, RequestRates
from broker_ctl.security.signed_requests import HEADER

# Answers to requests without a valid authentication (docs: configure-failures).


# A delayed answer outlives its connection, so connections do not limit their number.
_MAX_DELAYED: Final = 1024
_MAX_DELAYED_OF_ADDRESS: Final = 128
_REASON: Final = "too many requests of this address were not authenticated"


class FailedAuthentications:
    """Delays 401s. Where too many are delayed already, further ones become 429s.

    Attributes:
        refused: how many became 429s so far.
    """

    def __init__(self, delays: FailureDelays) -> None:
        self._delays = delays
        self._delayed: Counter[str] = Counter()
        self.refused = 0

    def show(self, bounds: BoundInstruments) -> None:
        """Show the delayed answers as a bound."""
        bounds.follow(
            "delayed-failures",
            used=self._delayed.total,
            limit=lambda: _MAX_DELAYED,
            refused=lambda: self.refused,
        )

    async def answer(self, origin: str, response: web.StreamResponse) -> web.StreamResponse:
        """The response to a request that was not authenticated, when it may be sent."""
        delay_s = self._delays.record(origin, "http")
        if not delay_s:
            return response
        if (
            self._delayed[origin] >= _MAX_DELAYED_OF_ADDRESS
            or self._delayed.total() >= _MAX_DELAYED
        ):
            self.refused += 1
            return responses.from_error(TooManyRequests(_REASON, delay_s))
        self._delayed[origin] += 1
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._delayed[origin] -= 1
            if not self._delayed[origin]:
                del self._delayed[origin]
        return response


# Which HTTP requests count towards the rate limits (docs: configure-rates).


# Without them a load balancer drops the broker, or the broker process stops.
_NEVER_LIMITED: Final = frozenset({Exempt.HEALTH, Exempt.DATA_PLANE})


class HttpRates:
    """Rates of HTTP requests.

    Health checks, the broker process's reads of its authority, and what brokers send each other are
    never limited.

    Args:
        is_signed: whether brokers sign what they send each other.
        brokers: judges their certificates. Without either, a client's request to the same route
            cannot be distinguished from theirs.
    """

    def __init__(
        self, rates: RequestRates, *, is_signed: bool, brokers: BrokerCertificates | None = None
    ) -> None:
        self._rates = rates
        self._is_proven = is_signed or brokers is not None
        self._brokers = brokers

    def check_address(self, request: web.Request, route: str, access: Access, origin: str) -> bool:
        """Count a request, before it is known who sends it; whether it is not counted yet.

        It is not where it says that it is another broker's: see `check_claim`.

        Raises:
            TooManyRequests: the address, or all clients together, have sent too many.
        """
        if not self._rates.limits_addresses or access in _NEVER_LIMITED:
            return False
        if is_order(route, request.method) and self._claims_broker(request):
            return True
        self._rates.spend(origin)
        return False

    def check_claim(self, request: web.Request, origin: str, *, is_refused: bool) -> None:
        """Count a request that said that it is another broker's, if it is not.

        Raises:
            TooManyRequests: as `check_address`, also in place of the refusal of its claim.
        """
        if is_refused or (self._is_proven and not sender_of(request)):
            self._rates.spend(origin)

    def check_role(self, request: web.Request) -> None:
        """Count a request of an authenticated client.

        Raises:
            TooManyRequests: its role has sent too many.
        """
        if self._rates.limits_roles:
            client = client_of(request)
            if client is not None:
                self._rates.spend_of_role(client.acting_role)

    def _claims_broker(self, request: web.Request) -> bool:
        return not self._is_proven or HEADER in request.headers or self._is_certified(request)

    def _is_certified(self, request: web.Request) -> bool:
        return self._brokers is not None and self._brokers.principal_of(request) is not None
