"""What a page reads and asks for, from the routes of the API, for its client."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from aiohttp import StreamReader, hdrs, web
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from broker_ctl import codec
from broker_ctl.api.http.access.authorization import token_in
from broker_ctl.api.http.access.peer_requests import evidence_of
from broker_ctl.api.http.dependencies import ClientForwarding, Cluster
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.clock import Clock
from broker_ctl.console.acts import ActRequest
from broker_ctl.console.pages.frame import Frame, LoadBand, Row
from broker_ctl.console.pages.judgement import KnownFacts
from broker_ctl.console.render import prepare
from broker_ctl.console.web.forms import Forms
from broker_ctl.console.web.sessions import Sessions
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import CorruptRecord, HttpError
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.peer_http import AddressSource
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, Operation

# Requests that a page makes for its client, to the same routes as the client's own requests.
#
# Such a request passes all steps of the dispatcher: limits, cross-origin protection,
# authorization, dry runs, the audit log. The console has no right of its own. Where another
# broker has to answer, the request goes there with the client's credentials.


_BUFFER_BYTES: Final = 1 << 16
_PASSED: Final = (hdrs.HOST, hdrs.ORIGIN, "Sec-Fetch-Site", "X-Request-Id", hdrs.AUTHORIZATION)
_MOST_REDIRECTS: Final = 4
_REDIRECTED: Final = HTTPStatus.TEMPORARY_REDIRECT
_UNREACHABLE: Final = HTTPStatus.BAD_GATEWAY

Answer = Callable[[RoutedRequest], Awaitable[web.StreamResponse]]


class Forward(Protocol):
    """Sends a client's request to another broker of the cluster; see `forwarding`."""

    async def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpReply:
        """The reply, which may be a redirect to yet another broker.

        Raises:
            HttpError: the address is not one of a broker, or it does not answer in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallReply:
    """A whole reply: status and JSON value, None where there is no JSON."""

    status: int
    value: Any

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def reason(self) -> str:
        """Why it did not, in the words of the API."""
        value = self.value
        reason = value.get("reason", "") if isinstance(value, Mapping) else ""
        return str(reason) or HTTPStatus(self.status).phrase

    @classmethod
    def of(cls, status: int, body: bytes) -> "CallReply":
        """The reply with this body."""
        try:
            return cls(status, codec.decode(body) if body else None)
        except CorruptRecord:
            return cls(status, None)


class Calls:
    """Makes such requests.

    Args:
        answer: the steps of a request of this server.
        forward: to other brokers; None: this process calls none for its clients.
        urls_of: the addresses of a live broker.
    """

    def __init__(
        self,
        answer: Answer,
        forward: Forward | None,
        urls_of: Callable[[str], BrokerUrls | None] = lambda _: None,
    ) -> None:
        self._answer = answer
        self._urls_of = urls_of
        self._forward = forward

    async def send(
        self, request: web.Request, method: str, target: str, body: Any = None, *, token: str = ""
    ) -> CallReply:
        """Make one request for the client of ``request``; ``target`` is path and query, encoded.

        ``token`` is of the client's session; empty: the client is known by the request itself.
        """
        content = None if body is None else codec.encode(body)
        headers = _headers(request, content, token)
        response = await self._answer(_request_for(request, method, target, headers, content))
        if response.status == _REDIRECTED:
            return await self._follow(response.headers[hdrs.LOCATION], method, headers, content)
        found = getattr(response, "body", None)
        return CallReply.of(response.status, found if isinstance(found, bytes) else b"")

    async def send_to(
        self, request: web.Request, broker: str, target: str, *, token: str = ""
    ) -> CallReply:
        """Make one GET for the client of ``request`` at the broker of this id."""
        urls = None if self._forward is None else self._urls_of(broker)
        url = None if urls is None else next(filter(None, reversed(urls.for_administration)), None)
        if url is None:
            return CallReply(_UNREACHABLE, {"reason": f"broker {broker} cannot be asked from here"})
        headers = _headers(request, None, token)
        return await self._follow(url.rstrip("/") + target, "GET", headers, None)

    async def _follow(
        self, url: str, method: str, headers: Mapping[str, str], content: bytes | None
    ) -> CallReply:
        if self._forward is None:
            reason = f"broker {urlsplit(url).netloc} answers this: open its console"
            return CallReply(_UNREACHABLE, {"reason": reason})
        passed = {
            name: headers[name] for name in (hdrs.AUTHORIZATION, "X-Request-Id") if name in headers
        }
        try:
            for _ in range(_MOST_REDIRECTS):
                reply = await self._forward(method, url, passed, content)
                if reply.status != _REDIRECTED:
                    return CallReply.of(reply.status, reply.body)
                url = reply.headers[hdrs.LOCATION]
        except HttpError as error:
            return CallReply(_UNREACHABLE, {"reason": str(error)})
        return CallReply(_UNREACHABLE, {"reason": "the brokers redirect to each other; try again"})


def _headers(request: web.Request, content: bytes | None, token: str) -> CIMultiDict[str]:
    headers = CIMultiDict(
        (name, value) for name in _PASSED if (value := request.headers.get(name)) is not None
    )
    if token:
        headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
    if content is not None:
        headers[hdrs.CONTENT_TYPE] = "application/json"
        headers[hdrs.CONTENT_LENGTH] = str(len(content))
    return headers


def _request_for(
    request: web.Request, method: str, target: str, headers: CIMultiDict[str], content: bytes | None
) -> RoutedRequest:
    """A request on the connection of another one: of the same address and certificate."""
    assert isinstance(request, RoutedRequest)
    loop = asyncio.get_running_loop()
    payload = StreamReader(request.protocol, _BUFFER_BYTES, loop=loop)
    payload.feed_data(content or b"")
    payload.feed_eof()
    message = RawRequestMessage(
        method,
        target,
        HttpVersion11,
        CIMultiDictProxy(headers),
        tuple(
            (name.encode(), value.encode(errors="surrogateescape"))
            for name, value in headers.items()
        ),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(target, encoded=True),
    )
    made = RoutedRequest(message, payload, request.protocol, request.writer, request.task, loop)
    made.is_inner = True
    made.is_at_admin_port = request.is_at_admin_port
    return made


# A client's requests to other brokers of the cluster, with the client's own credentials.
#
# A client that can write to ZooKeeper can name an address there. A token goes only to brokers that
# prove themselves (docs: threat-peers).


_TIMEOUT_S: Final = 20.0


def forward_to_brokers(cluster: Cluster, forwarding: ClientForwarding) -> Forward:
    """Forwards to live brokers, at the addresses of their registrations only."""

    async def forward(
        method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpReply:
        broker, target = _broker_at(cluster, url)
        if hdrs.AUTHORIZATION in headers and not forwarding.is_proven(broker.broker_id):
            raise HttpError(
                f"broker {broker.broker_id} answers this, and a token is sent only to brokers that "
                "prove themselves: open its console, or set brokerClientCertificateFilePath or "
                "znodeSignatures=require"
            )
        peers = forwarding.peers_with(lambda *_: headers)
        return await peers.request(
            method, broker, target, AddressSource.REGISTRATION, content=body, timeout_s=_TIMEOUT_S
        )

    return forward


def _broker_at(cluster: Cluster, url: str) -> tuple[BrokerUrls, str]:
    """The broker of an address, with the path and query of the request."""
    for broker_id in cluster.broker_ids():
        urls = cluster.urls_of(broker_id)
        known = () if urls is None else (*urls.for_administration, urls.web_url, urls.web_url_tls)
        for base in known:
            if urls is not None and base and url.startswith(base.rstrip("/") + "/"):
                return urls, url.removeprefix(base.rstrip("/"))
    raise HttpError("the broker that answers this is not registered")


# What a page reads, from the routes of the API, for its client.


CLUSTER: Final = "/control/v1/cluster"
_STATUS: Final = "/control/v1/status"
_PAUSE: Final = "/control/v1/pause"
_DRAINS: Final = "/control/v1/drains"
_CONTROLLER: Final = "/control/v1/partitions/controller"
_SETTINGS: Final = "/admin/v2/brokers/configuration/runtime"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_CENT: Final = 100


class RefusedPage(Exception):
    """The client may not read a page, or has not signed in.

    Attributes:
        reply: of the API, with its reason.
    """

    def __init__(self, reply: CallReply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class ConsoleRules:
    """Of the console.

    Attributes:
        cluster, own_id: name of the cluster, and id of this process.
        is_served: whether there is a console.
        is_read_only: whether nothing may be changed with it.
        authenticator: of clients; None: they need not sign in, and may do everything.
        policy: what roles may do; None: everything.
        zookeeper: ``host:port,...`` of the servers; empty: this process has none.
    """

    cluster: str
    own_id: str
    is_served: bool = True
    is_read_only: bool = False
    authenticator: Authenticator | None = None
    policy: AuthorizationPolicy | None = None
    zookeeper: str = ""


class ConsoleReading:
    """Reads for one client."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        rules: ConsoleRules,
        sessions: Sessions,
        bounds: BoundInstruments,
    ) -> None:
        self.calls = calls
        self.sessions = sessions
        self.forms = Forms(bounds)
        self.bounds = bounds
        self._is_prepared = False
        self._clock = clock
        self.rules = rules

    async def get(self, request: web.Request, target: str) -> CallReply:
        """The reply to a GET.

        Raises:
            Refused: 401 or 403.
        """
        if not self._is_prepared:
            await asyncio.to_thread(prepare)
            self._is_prepared = True
        token = self.sessions.token_of(request)
        reply = await self.calls.send(request, "GET", target, token=token)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RefusedPage(reply)
        return reply

    async def require_client(self, request: web.Request) -> None:
        """Let a client pass whom the API knows, whatever its rights are.

        Raises:
            ApiError: 401, it has not signed in.
        """
        try:
            await self.get(request, _PAUSE)
        except RefusedPage as refused:
            if refused.reply.status == HTTPStatus.UNAUTHORIZED:
                raise ApiError(401, str(refused), kind="Unauthorized") from refused

    async def at_broker(self, request: web.Request, broker: str, target: str) -> CallReply:
        """The reply of one broker to a GET, which it answers about itself.

        Raises:
            Refused: 401 or 403.
        """
        if broker == self.rules.own_id:
            return await self.get(request, target)
        token = self.sessions.token_of(request)
        reply = await self.calls.send_to(request, broker, target, token=token)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RefusedPage(reply)
        return reply

    async def send(self, request: web.Request, made: ActRequest, *, is_dry_run: bool) -> CallReply:
        """The reply to an act, for the client of a page."""
        target, token = made.target(is_dry_run=is_dry_run), self.sessions.token_of(request)
        return await self.calls.send(request, made.method, target, made.body, token=token)

    async def value(self, request: web.Request, target: str, default: Any) -> Any:
        """The JSON of a GET; ``default``: it cannot be answered now, or is not served here."""
        reply = await self.get(request, target)
        return reply.value if reply.is_done else default

    async def known(self, request: web.Request) -> KnownFacts:
        """How the cluster is."""
        status = await self.value(request, _STATUS, None)
        reply = await self.get(request, CLUSTER)
        cluster = reply.value if reply.is_done else None
        unreachable = reply.reason if reply.status == HTTPStatus.BAD_GATEWAY else ""
        drains = await self.value(request, _DRAINS, []) if cluster is not None else []
        controller = await self.value(request, _CONTROLLER, None)
        # Every daemon knows it, with and without a leader.
        pause = await self.value(request, _PAUSE, {}) if cluster is None else cluster
        return KnownFacts(
            cluster,
            status or self._unknown_status(),
            drains,
            controller,
            unreachable=unreachable,
            is_paused=pause.get("paused", False),
            zookeeper=self.rules.zookeeper,
        )

    async def band(self, request: web.Request) -> LoadBand:
        """The band of the planner, by the settings of this process."""
        try:
            settings = await self.value(request, _SETTINGS, {})
        except RefusedPage:
            # Settings need another right than the view: without it, the defaults are drawn.
            settings = {}
        low, high = settings.get(_LOW), settings.get(_HIGH)
        return LoadBand(int(low) / _CENT, int(high) / _CENT) if low and high else LoadBand()

    def now_ms(self) -> int:
        """The time, in ms since 1970."""
        return self._clock.wall_ms()

    def frame(
        self, request: web.Request, page: str, cluster: Row | None, *, live: str = ""
    ) -> Frame:
        """The frame of a page for its client."""
        role, offered = self._rights(request)
        rules, taken_ms = self.rules, None if cluster is None else cluster["taken_at_ms"]
        return Frame(
            page,
            rules.cluster,
            rules.own_id,
            "" if cluster is None else cluster["leader"],
            (self._clock.wall_ms() - taken_ms) / 1000 if taken_ms else None,
            live=live,
            is_read_only=rules.is_read_only,
            has_sign_in=rules.authenticator is not None,
            role=role,
            offered=offered,
        )

    def role_of(self, request: web.Request, token: bytes) -> str:
        """The role that a token has; empty: none, or nobody has one here."""
        authenticator = self.rules.authenticator
        if authenticator is None:
            return ""
        principal = authenticator.authenticate(evidence_of(request, token))
        return "" if principal is None else principal.role

    def _rights(self, request: web.Request) -> tuple[str, frozenset[Operation]]:
        """The role of a client, and what is offered to it; the API decides again."""
        policy = self.rules.policy
        if self.rules.authenticator is None or policy is None:
            return "", frozenset(Operation)
        token = self.sessions.token_of(request).encode() or token_in(request)
        role = self.role_of(request, token)
        if not role:
            return "", frozenset()
        return role, frozenset(each for each in Operation if policy.allows_everywhere(role, each))

    def _unknown_status(self) -> Row:
        session = {"state": "unknown", "epoch": 0, "lease_remaining_s": 0.0}
        reason = "its status cannot be read"
        return {
            "broker": self.rules.own_id,
            "session": session,
            "is_ready": False,
            "reason": reason,
        }
