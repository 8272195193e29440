"""Which HTTP requests count towards the rate limits (docs: configure-rates)."""

from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.authorization import client_of
from broker_ctl.api.http.access.broker_certificates import BrokerCertificates
from broker_ctl.api.http.access.peer_requests import is_order, sender_of
from broker_ctl.api.http.access.rules import Access, Exempt
from broker_ctl.security.client_limits.request_rates import RequestRates
from broker_ctl.security.signed_requests import HEADER

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
