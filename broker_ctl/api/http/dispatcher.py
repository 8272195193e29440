"""The steps of every request.

Before the handler: the turn in the event loop, routing, the rate of the address, the protection
against web pages of other sites, the check for compressed bodies, authorization, the concurrency
limit, the rate of the role, the check for dry runs. Nothing is held or read for a client before it
is known who it is. After it: an exception becomes a
response, which goes to the audit log and is counted by route, method and status. Built on aiohttp's
`web.Server` rather than `web.Application`, whose overhead is a third of a warm lookup.
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from yarl import URL

from broker_ctl.api.http import dry_runs
from broker_ctl.api.http.access import peer_requests
from broker_ctl.api.http.access.audit import AuditTrail
from broker_ctl.api.http.access.authorization import Authorizer, Undecided
from broker_ctl.api.http.access.cross_origin import CrossOriginProtection
from broker_ctl.api.http.access.route_rules import access_of
from broker_ctl.api.http.access.rules import Access
from broker_ctl.api.http.broker_process import explain_unserved
from broker_ctl.api.http.eager import Steps, in_task, recall_of
from broker_ctl.api.http.error_responses import ErrorRenderer, route_of
from broker_ctl.api.http.limits.bodies import Bodies
from broker_ctl.api.http.limits.concurrency import RequestClasses
from broker_ctl.api.http.limits.connections import BoundedServer, Connection
from broker_ctl.api.http.limits.deadlines import Deadlines
from broker_ctl.api.http.limits.failed_authentications import FailedAuthentications
from broker_ctl.api.http.limits.overload import Overload
from broker_ctl.api.http.limits.rates import HttpRates
from broker_ctl.api.http.port_routes import PortFilter
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import RoutedRequest, RouteTable
from broker_ctl.api.http.server_log import ServerLog
from broker_ctl.api.http.traced import note_status, traced
from broker_ctl.instruments.kinds import Counter
from broker_ctl.settings.http_ports import PortRole
from broker_ctl.tracing.spans import Tracer

_UNKNOWN: Final = "unknown"
_REFUSED: Final = "refused"
_BAD_REQUEST: Final = "400"
_CONTINUE: Final = "100-continue"
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_NOT_COMPRESSED: Final = "identity"


class Dispatcher:
    """Calls the handler of a request. No traceback reaches a client."""

    def __init__(
        self,
        routes: RouteTable,
        request_classes: RequestClasses,
        overload: Overload,
        protection: CrossOriginProtection,
        authorizer: Authorizer,
        *,
        audit: AuditTrail,
        rates: HttpRates,
        failures: FailedAuthentications,
        requests: Counter,
        bodies: Bodies,
        tracer: Tracer | None,
    ) -> None:
        self._routes = routes
        self._tracer = tracer
        self._deadlines = Deadlines()
        self._request_classes = request_classes
        self._overload = overload
        self._protection = protection
        self._authorizer = authorizer
        self._audit = audit
        self._rates = rates
        self._failures = failures
        self._requests = requests
        self._bodies = bodies
        self._error_renderer = ErrorRenderer()

    def server(self, port: PortFilter, **options: Any) -> BoundedServer:
        """The server for connections of this event loop to such ports."""
        received = partial(
            RoutedRequest, loop=asyncio.get_running_loop(), client_max_size=self._bodies.limit
        )
        # As in Pulsar, a compressed body is not decompressed: a small one could fill the memory.
        return BoundedServer(
            partial(self._handle, port),
            request_factory=received,
            begin=partial(self._begin, port),
            bodies=self._bodies,
            auto_decompress=False,
            logger=ServerLog(self._count_malformed),
            **options,
        )

    def _count_malformed(self) -> None:
        self._requests.add(_UNKNOWN, _UNKNOWN, _BAD_REQUEST)

    async def answer(self, port: PortFilter, request: RoutedRequest) -> web.StreamResponse:
        """Answer a request that a handler makes for its client, by the same steps."""
        return await self._answer(*self._route(request, port))

    def close(self) -> None:
        """Stop ending requests that hang."""
        self._deadlines.close()

    def _begin(self, port: PortFilter, received: web.BaseRequest) -> Steps | None:
        """Begin the steps of a request that memory may answer; None: of all others, nothing yet."""
        assert isinstance(received, RoutedRequest)
        found = self._routes.find(received.method, received.rel_url.path_safe)
        if not isinstance(found, web.UrlMappingMatchInfo) or recall_of(found.handler) is None:
            return None
        if port.refuses(found.route) or not self._overload.turns.take():
            return None
        received.match_info, received.is_eager = found, True
        received.is_at_admin_port = port.role is PortRole.ADMIN
        return Steps(self._answer(received, found))

    async def _handle(self, port: PortFilter, received: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(received, RoutedRequest)
        connection = received.protocol
        assert isinstance(connection, Connection)
        begun = connection.begin_request()
        if begun is not None:
            return await begun
        if not self._overload.turns.take():
            refused = await self._overload.wait(received)
            if refused is not None:
                self._requests.add(_UNKNOWN, _UNKNOWN, str(refused.status))
                return refused
        return await self._answer(*self._route(received, port))

    async def _answer(
        self,
        request: RoutedRequest,
        found: web.UrlMappingMatchInfo | web.HTTPException | ApiError,
    ) -> web.StreamResponse:
        """The response, counted and in the audit log."""
        # In this order: a class of its own is cheaper to recognise than an abstract base is to rule
        # out, and most requests have a route.
        is_route = isinstance(found, web.UrlMappingMatchInfo)
        # Unrouted requests share one label value: their paths and methods are unbounded.
        route, method = (route_of(request), request.method) if is_route else (_UNKNOWN, _UNKNOWN)
        connection = request.protocol
        assert isinstance(connection, Connection)
        response: web.StreamResponse
        try:
            access = access_of(route, request.method)
            limit, limit_s = self._request_classes.of(request, access)
            verdict = self._judge(request, route, access, connection.origin)
            if verdict is None or isinstance(verdict, Undecided):
                with limit:
                    if isinstance(found, web.UrlMappingMatchInfo):
                        response = await self._call_handler(request, route, limit_s, verdict)
                    else:
                        response = self._respond_unrouted(request, found)
            else:
                response = verdict
        except Exception as met:  # noqa: BLE001  # each one becomes a response
            response = self._error_renderer.render(request, met)
        self._audit.record(request, route, response)
        if not request.is_admitted:
            # The number of series is bounded, and these are open to everybody: a stranger who asked
            # for every route must not use up those of the requests that are served.
            route, method = _UNKNOWN if route == _UNKNOWN else _REFUSED, _UNKNOWN
        self._requests.add(route, method, str(response.status))
        if response.status == _UNAUTHORIZED and not request.is_inner:
            # Here, where it holds no place in the limit of requests in progress.
            await in_task(request)
            return await self._failures.answer(connection.origin, response)
        return response

    def _judge(
        self, request: RoutedRequest, route: str, access: Access, origin: str
    ) -> web.StreamResponse | Undecided | None:
        """All checks that need nothing but the head of a request; see `Authorizer.judge`."""
        is_claim = self._rates.check_address(request, route, access, origin)
        self._protection.check(request, route)
        if hdrs.CONTENT_ENCODING in request.headers and route != _UNKNOWN:
            _refuse_compressed(request)
        verdict = self._authorizer.judge(request, route, access)
        if is_claim:
            status = verdict.status if isinstance(verdict, web.StreamResponse) else None
            # Who has to sign for this start has shown the signature of a broker.
            if status != HTTPStatus.TOO_EARLY:
                self._rates.check_claim(request, origin, is_refused=status is not None)
        return verdict

    def _route(
        self, request: RoutedRequest, port: PortFilter
    ) -> tuple[RoutedRequest, web.UrlMappingMatchInfo | web.HTTPException | ApiError]:
        """The request, without a trailing slash, and its route or the error of having none."""
        url = request.rel_url
        found = self._routes.find(request.method, url.path_safe)
        path = url.raw_path
        has_slash = path.endswith("/") and path != "/"
        if has_slash and not isinstance(found, web.UrlMappingMatchInfo):
            # Jetty serves such a path too, and scripts and scrapers rely on it.
            path, query = path.rstrip("/") or "/", url.raw_query_string
            clone = request.clone(rel_url=URL.build(path=path, query_string=query, encoded=True))
            assert isinstance(clone, RoutedRequest)
            request = clone
            found = self._routes.find(request.method, request.rel_url.path_safe)
        request.is_at_admin_port = port.role is PortRole.ADMIN
        if not isinstance(found, web.UrlMappingMatchInfo):
            return request, found
        request.match_info = found
        return request, port.refusal_of(found.route) or found

    async def _call_handler(
        self, request: RoutedRequest, route: str, limit_s: float, undecided: Undecided | None
    ) -> web.StreamResponse:
        if undecided is not None:
            refused = await self._authorizer.decide(request, undecided)
            if refused is not None:
                return refused
        if hdrs.EXPECT in request.headers:
            await in_task(request)
            await _meet_expectation(request)
        self._rates.check_role(request)
        await peer_requests.check_body(request)
        dry_runs.check(request)
        await self._audit.begin(request, route)
        request.is_admitted = True
        recall = recall_of(request.match_info.handler)
        known = None if recall is None else recall(request)
        if known is not None:
            if self._tracer is not None:
                with traced(self._tracer, request, route) as span:
                    note_status(span, known)
            return known
        await in_task(request)
        with (
            traced(self._tracer, request, route) as span,
            self._audit.passing_id(request),
            self._deadlines.within(limit_s),
        ):
            response = await request.match_info.handler(request)
            note_status(span, response)
            return response

    def _respond_unrouted(
        self, request: RoutedRequest, why: web.HTTPException | ApiError
    ) -> web.StreamResponse:
        """The response for no route at this port; built, not raised: raising keeps frames alive."""
        unserved = explain_unserved(request.path) if why.status == _NOT_FOUND else None
        return self._error_renderer.render(request, unserved or why)


def _refuse_compressed(request: RoutedRequest) -> None:
    """Refuse a body that only a decompression could read.

    Raises:
        ApiError: 415, the body is compressed.
    """
    coding = request.headers.get(hdrs.CONTENT_ENCODING)
    if coding and coding.lower() != _NOT_COMPRESSED:
        raise ApiError(
            415, "compressed bodies are not supported: Content-Encoding must be identity or absent"
        )


async def _meet_expectation(request: RoutedRequest) -> None:
    """Send 100 Continue to a client that waits for it before its body.

    Raises:
        ApiError: 417, any other expectation.
    """
    expected = request.headers.get(hdrs.EXPECT)
    if not expected:
        return
    if expected.lower() != _CONTINUE:
        raise ApiError(417, f"the only supported Expect header is {_CONTINUE}")
    await request.match_info.expect_handler(request)
    await request.writer.drain()
