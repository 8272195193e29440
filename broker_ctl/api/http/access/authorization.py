"""Who may send which request."""

import hmac
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import hdrs, web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.peer_requests import (
    BrokerCertificates,
    PeerRequests,
    evidence_of,
    is_order,
)
from broker_ctl.api.http.access.route_rules import TOPIC_LOOKUP, Access, Exempt, Rule
from broker_ctl.api.http.limits.connections import HttpConnection
from broker_ctl.api.http.request_params import topic_in
from broker_ctl.api.http.routing import KnownClient, RoutedRequest, Sender, in_task
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.directives import MOST_WHO
from broker_ctl.security.authentication import Authenticator, Principal, Proof
from broker_ctl.security.authorization import Authorization, Client, Decision, Operation, Resource
from broker_ctl.security.signed_requests import (
    HEADER,
    START_HEADER,
    SignatureRefused,
    StartWanted,
)

log = logging.getLogger(__name__)

# Log of requests that were rejected before they were read, at a bounded rate.


# Logged one by one in each minute; any further ones are only counted.
_MAX_LOGGED: Final = 10
_WINDOW_S: Final = 60.0
_MAX_PATH_LENGTH: Final = 300


class RejectedRequests:
    """Rejected requests of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = 0.0
        self._rejected = 0

    def record(self, request: web.Request, status: int, reason: str) -> None:
        """Log a request that was rejected with this status, or only count it."""
        now_s = self._clock.now_s()
        if now_s - self._began_s >= _WINDOW_S:
            if self._rejected > _MAX_LOGGED:
                log.warning("%d more requests were rejected", self._rejected - _MAX_LOGGED)
            self._began_s, self._rejected = now_s, 0
        self._rejected += 1
        if self._rejected > _MAX_LOGGED:
            return
        path = request.raw_path[:_MAX_PATH_LENGTH]
        log.warning(
            "rejected with %d: %s %r from %s, %s",
            status,
            request.method,
            path,
            request.remote,
            reason,
        )


# Who may send which request.
#
# Where authentication is on, every request needs a role, except those for health, and those for
# metrics without ``authenticateMetricsEndpoint``. `route_rules` names the operation and the
# resource of each route. A broker process reads its authority with the secret that it shares with
# this daemon.


_SCHEME: Final = "bearer"
_ORIGINAL_PRINCIPAL: Final = "X-Original-Principal"
_CLAIMED_OPERATOR: Final = web.RequestKey("claimed_operator", str)


class Undecided(NamedTuple):
    """A request whose grants have to be read first."""

    client: Client
    operation: Operation
    resource: Resource


class Authorizer:
    """401 without a proven role, 403 for a role without the right.

    Args:
        authenticator: None: clients need not authenticate, and may do everything.
        dataplane_secret: newest token of the broker process; None: it needs none.
        peers: judges the signed requests of other brokers; None: a signature proves nothing.
        brokers: judges certificates of other brokers; None: they are not brokers by these.
        authenticates_metrics: whether metrics need a role.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        authorization: Authorization,
        dataplane_secret: Callable[[], bytes] | None,
        clock: Clock,
        peers: PeerRequests | None = None,
        *,
        brokers: BrokerCertificates | None = None,
        authenticates_metrics: bool = False,
    ) -> None:
        self._peers = peers
        self._brokers = brokers
        self._authenticator = authenticator
        self._authorization = authorization
        self._clock = clock
        self._rejected = RejectedRequests(clock)
        self._secret = dataplane_secret
        self._open = {Exempt.HEALTH, Exempt.CONSOLE} | (
            set() if authenticates_metrics else {Exempt.METRICS}
        )

    def judge(
        self, request: web.Request, route: str, access: Access
    ) -> web.Response | Undecided | None:
        """The rejection of a request, which is also logged; None: the request is allowed.

        It never waits. Where the decision depends on grants that are not cached yet, `decide` ends
        it: by then it is known who has sent the request.

        Raises:
            InvalidName: the path names no valid resource.
        """
        try:
            verdict = self._judge(request, route, access)
        except StartWanted as error:
            # Not a stranger: a broker, which repeats it signed for this start.
            wanted = responses.error(HTTPStatus.TOO_EARLY, "StartWanted", str(error))
            wanted.headers[START_HEADER] = error.start
            return wanted
        except SignatureRefused as error:
            verdict = responses.error(401, "Unauthorized", str(error))
            self._rejected.record(request, verdict.status, str(error))
            return verdict
        if verdict is None or isinstance(verdict, Undecided):
            return verdict
        return self._reject(request, verdict)

    async def decide(self, request: web.Request, undecided: Undecided) -> web.Response | None:
        """As `judge`, with the grants read.

        Raises:
            BrokerCtlError: the grants cannot be read.
        """
        await in_task(request)
        decision = await self._authorization.allows(*undecided)
        return None if decision.is_allowed else self._reject(request, _forbidden(decision))

    def _reject(self, request: web.Request, verdict: web.Response) -> web.Response:
        principal = principal_of(request)
        who = "no known token" if principal is None else f"role {principal.role}"
        self._rejected.record(request, verdict.status, who)
        return verdict

    def _judge(
        self, request: web.Request, route: str, access: Access
    ) -> web.Response | Undecided | None:
        """The rejection of a request; None: it is allowed."""
        if self._authenticator is None:
            _connection_of(request).is_known = True
        if access is TOPIC_LOOKUP and self._is_known_lookup(request):
            return None
        peers, has_order = self._peers, is_order(route, request.method)
        if peers is not None and peers.is_broker(request, self._brokers):
            _note(request, Sender(Principal(peers.role, Proof.SIGNED_REQUEST)))
            return None if has_order else _no_order(peers.role)
        broker = self._broker_of(request)
        if broker is not None and has_order:
            _note(request, Sender(broker))
            return None
        if peers is not None and peers.refuses_unsigned(route, request.method):
            reason = "only brokers send this, signed with the cluster's key"
            return responses.error(401, "Unauthorized", reason)
        return self._judge_client(request, access, broker)

    def _is_known_lookup(self, request: web.Request) -> bool:
        """Whether a connection's client looks up a topic like those that it was allowed before.

        Brokers send no such request, and no signature or certificate gives a right to it.
        """
        assert isinstance(request, RoutedRequest)
        connection, authenticator = request.protocol, self._authenticator
        assert isinstance(connection, HttpConnection)
        known = connection.known_client
        if (
            known is None
            or authenticator is None
            or HEADER in request.headers
            or not self._is_sender(known, request, authenticator)
        ):
            return False
        client = known.sender.client
        namespace = topic_in(request).namespace
        if client is None or not self._authorization.knows_right(
            client, TOPIC_LOOKUP.operation, namespace
        ):
            return False
        request.sender = known.sender
        return True

    def _is_sender(
        self, known: KnownClient, request: web.Request, authenticator: Authenticator
    ) -> bool:
        headers = request.headers
        shown = headers.get(hdrs.AUTHORIZATION, "")
        original = headers.get(_ORIGINAL_PRINCIPAL, "")
        now_s = self._clock.wall_ms() / 1000
        return known.is_sender(shown, original, authenticator.era, now_s)

    def _broker_of(self, request: web.Request) -> Principal | None:
        """Who has sent a request without a token, if its certificate is one of a broker."""
        if self._brokers is None or token_in(request):
            return None
        return self._brokers.principal_of(request)

    def _judge_client(
        self, request: web.Request, access: Access, broker: Principal | None
    ) -> web.Response | Undecided | None:
        if isinstance(access, Exempt) and not self._needs_client(access):
            return self._judge_process(request) if access is Exempt.DATA_PLANE else None
        if self._authenticator is None:
            return None
        client = self._client_of(request, self._authenticator, broker)
        # Of this type, and not of the other: aiohttp's responses are slow to rule out.
        if not isinstance(client, Client):
            return client
        return None if isinstance(access, Exempt) else self._judge_role(request, client, access)

    def _needs_client(self, access: Exempt) -> bool:
        return access is not Exempt.DATA_PLANE and access not in self._open

    def _judge_process(self, request: web.Request) -> web.Response | None:
        """As `_judge`, for the broker process."""
        secret = self._secret
        is_known = secret is None or hmac.compare_digest(token_in(request), secret())
        return None if is_known else _unauthorized()

    def _judge_role(
        self, request: web.Request, client: Client, rule: Rule
    ) -> web.Response | Undecided | None:
        operation, authorization = rule.operation, self._authorization
        if authorization.allows_everywhere(client, operation):
            return None
        resource = rule.resource_of(request)
        decision = authorization.recall(client, operation, resource)
        if decision is None:
            return Undecided(client, operation, resource)
        return None if decision.is_allowed else _forbidden(decision)

    def _client_of(
        self, request: web.Request, authenticator: Authenticator, broker: Principal | None
    ) -> Client | web.Response:
        """The client, or the response for one that has not authenticated, or is a broker."""
        if broker is not None:
            _note(request, Sender(broker))
            return _no_order(broker.role)
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        known = connection.known_client
        if (
            known is not None
            and known.sender.client is not None
            and self._is_sender(known, request, authenticator)
        ):
            _note(request, known.sender)
            return known.sender.client
        connection.known_client = None
        return self._authenticate(request, authenticator, connection)

    def _authenticate(
        self, request: web.Request, authenticator: Authenticator, connection: HttpConnection
    ) -> Client | web.Response:
        """As `_client_of`, by what the request shows; its connection keeps it."""
        era, token = authenticator.era, token_in(request)
        principal = authenticator.authenticate(evidence_of(request, token))
        if principal is None:
            return _unauthorized()
        _note(request, Sender(principal))
        original = request.headers.get(_ORIGINAL_PRINCIPAL, "")
        error = self._authorization.policy.original_principal_error(principal.role, original)
        if error is not None:
            return _unauthorized(error)
        client = Client(principal.role, original)
        sender = Sender(principal, client, self._authorization)
        _note(request, sender)
        shown = request.headers.get(hdrs.AUTHORIZATION, "")
        if token and shown.isascii():
            connection.known_client = KnownClient(shown, original, era, sender)
        return client


def operator_of(request: web.Request) -> str:
    """Operator of a request: the role of its principal, or else the name that it claims."""
    claimed: str = request.get(_CLAIMED_OPERATOR) or request.query.get("by", "")
    client = client_of(request)
    if client is not None:
        return client.acting_role
    principal = principal_of(request)
    if principal is not None:
        return principal.role
    return claimed if claimed.isprintable() and len(claimed) <= MOST_WHO else ""


def may_everywhere(request: web.Request, operation: Operation) -> bool:
    """Whether the client of a request may perform another operation on the whole cluster, too."""
    sender = _sender_of(request)
    if sender is None or sender.client is None or sender.authorization is None:
        return True
    return sender.authorization.allows_everywhere(sender.client, operation)


def record_claimed_operator(request: web.Request, who: str) -> None:
    """Keep the operator that a request's body names."""
    request[_CLAIMED_OPERATOR] = who


def client_of(request: web.Request) -> Client | None:
    """The authenticated client of a request; None: it is another broker's, or nobody's."""
    sender = _sender_of(request)
    return None if sender is None else sender.client


def principal_of(request: web.Request) -> Principal | None:
    """Principal of a request; None: its route is open, or the client has proven no role."""
    sender = _sender_of(request)
    return None if sender is None else sender.principal


def _note(request: web.Request, sender: Sender) -> None:
    assert isinstance(request, RoutedRequest)
    request.sender = sender
    _connection_of(request).is_known = True


def _connection_of(request: web.Request) -> HttpConnection:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    return connection


def _sender_of(request: web.Request) -> Sender | None:
    assert isinstance(request, RoutedRequest)
    return request.sender


def token_in(request: web.Request) -> bytes:
    """The bearer token of a request, which nobody has judged; empty: it has none."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != _SCHEME:
        return b""
    # Undecodable bytes of a header arrive as surrogates.
    return token.strip().encode(errors="surrogateescape")


def _forbidden(decision: Decision) -> web.Response:
    return responses.error(403, "Forbidden", decision.reason)


def _no_order(role: str) -> web.Response:
    return responses.error(403, "Forbidden", f"role {role} may only send what brokers send")


def _unauthorized(
    reason: str = "a known bearer token or client certificate is required",
) -> web.Response:
    refused = responses.error(401, "Unauthorized", reason)
    refused.headers["WWW-Authenticate"] = "Bearer"
    return refused
