"""The steps of every request."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from broker_ctl.api.http import request_params
from broker_ctl.api.http.access import peer_requests
from broker_ctl.api.http.access.audit import AuditTrail
from broker_ctl.api.http.access.authorization import Authorizer, Undecided
from broker_ctl.api.http.access.cross_origin import CrossOriginProtection
from broker_ctl.api.http.access.route_rules import Access, PortFilter, access_of
from broker_ctl.api.http.limits.connections import Bodies, BoundedServer, HttpConnection
from broker_ctl.api.http.limits.rates import FailedAuthentications, HttpRates
from broker_ctl.api.http.limits.requests import Deadlines, Overload, RequestClasses
from broker_ctl.api.http.responses import ApiError, ErrorRenderer, explain_unserved, route_of
from broker_ctl.api.http.routing import RequestSteps, RoutedRequest, RouteTable, in_task, recall_of
from broker_ctl.instruments.kinds import Counter
from broker_ctl.settings.publishing import PortRole
from broker_ctl.tracing.spans import NO_SPAN, TRACEPARENT, Span, Tracer, request_span

log = logging.getLogger(__name__)

# Messages of aiohttp's server, in this package's log.
#
# Malformed requests get a 400 and are counted. An error with a traceback for each would let a slow
# client fill a disk.


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """Logs server errors as errors, malformed requests at debug level.

    Args:
        on_malformed: called for each request that is not HTTP.
    """

    def __init__(self, on_malformed: Callable[[], None]) -> None:
        super().__init__(log)
        self._on_malformed = on_malformed

    def log(
        self, level: int, msg: object, *args: object, exc_info: Any = None, **kwargs: Any
    ) -> None:
        """Log a message of the server."""
        if isinstance(exc_info, HttpProcessingError):
            self._on_malformed()
            super().log(logging.DEBUG, "malformed HTTP request: %s", type(exc_info).__name__)
            return
        super().log(level, msg, *args, exc_info=exc_info, **kwargs)


# The span of a request that has passed authorization: its route, method, status.


def traced(
    tracer: Tracer | None, request: web.Request, route: str
) -> AbstractContextManager[Span | None]:
    """For the length of the block a span, which continues the trace of the client if it has one."""
    if tracer is None:
        return NO_SPAN
    return request_span(
        tracer,
        f"{request.method} {route}",
        parent=request.headers.get(TRACEPARENT, ""),
        **{"http.request.method": request.method, "http.route": route},
    )


def note_status(span: Span | None, response: web.StreamResponse) -> None:
    """Add what was answered."""
    if span is not None:
        span.set("http.response.status_code", response.status)


# The steps of every request.
#
# Before the handler: the turn in the event loop, routing, the rate of the address, the protection
# against web pages of other sites, the check for compressed bodies, authorization, the
# concurrency limit, the rate of the role, the check for dry runs. Nothing is held or read for a
# client before it is known who it is. After it: an exception becomes a response, which goes to
# the audit log and is counted by route, method and status. Built on aiohttp's `web.Server` rather
# than `web.Application`, whose overhead is a third of a warm lookup.


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

    def _begin(self, port: PortFilter, received: web.BaseRequest) -> RequestSteps | None:
        """Begin the steps of a request that memory may answer; None: of all others, nothing yet."""
        assert isinstance(received, RoutedRequest)
        found = self._routes.find(received.method, received.rel_url.path_safe)
        if not isinstance(found, web.UrlMappingMatchInfo) or recall_of(found.handler) is None:
            return None
        if port.refuses(found.route) or not self._overload.turns.take():
            return None
        received.match_info, received.is_eager = found, True
        received.is_at_admin_port = port.role is PortRole.ADMIN
        return RequestSteps(self._answer(received, found))

    async def _handle(self, port: PortFilter, received: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(received, RoutedRequest)
        connection = received.protocol
        assert isinstance(connection, HttpConnection)
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
        assert isinstance(connection, HttpConnection)
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
        except Exception as error:  # noqa: BLE001  # each one becomes a response
            response = self._error_renderer.render(request, error)
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
        request_params.check(request)
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
