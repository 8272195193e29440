"""What every request passes on its way in and out.

In: its route, a place among those in progress, who may ask for it, and whether it has a dry run.
Out: whatever was raised becomes an answer, and is counted by route, method and status. It stands
right on aiohttp's server, where an application would: what that one does besides takes a third as
long as finding an owner.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from aiohttp import hdrs, web
from yarl import URL

from broker_ctl.api.http import audit, dry_runs
from broker_ctl.api.http.authorization import Authorizer
from broker_ctl.api.http.broker_process import not_here
from broker_ctl.api.http.connections import BoundedServer
from broker_ctl.api.http.error_responses import ErrorRenderer, route_of
from broker_ctl.api.http.limits import Deadlines, RequestClasses
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import RoutedRequest, RouteTable
from broker_ctl.api.http.server_log import ServerLog
from broker_ctl.instruments.kinds import Counter

_UNKNOWN: Final = "unknown"
_BAD_REQUEST: Final = "400"
_CONTINUE: Final = "100-continue"
_NOT_FOUND: Final = 404


class Dispatcher:
    """Stands around all handlers. No traceback reaches a client."""

    def __init__(
        self,
        routes: Iterable[web.AbstractRouteDef],
        lanes: RequestClasses,
        doorkeeper: Authorizer,
        requests: Counter,
        max_body_bytes: int,
    ) -> None:
        self._routes = RouteTable(routes)
        self._deadlines = Deadlines()
        self._lanes = lanes
        self._doorkeeper = doorkeeper
        self._requests = requests
        self._max_body_bytes = max_body_bytes
        self._explainer = ErrorRenderer()

    def server(self, **options: Any) -> BoundedServer:
        """What answers on the connections of this event loop."""
        received = partial(
            RoutedRequest, loop=asyncio.get_running_loop(), client_max_size=self._max_body_bytes
        )
        # A body that is packed is not unpacked, as in Pulsar: a small one could fill the memory.
        return BoundedServer(
            self._answered,
            request_factory=received,
            auto_decompress=False,
            logger=ServerLog(self._not_understood),
            **options,
        )

    def _not_understood(self) -> None:
        self._requests.add(_UNKNOWN, _UNKNOWN, _BAD_REQUEST)

    def close(self) -> None:
        """End no request any more that hangs."""
        self._deadlines.close()

    async def _answered(self, received: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(received, RoutedRequest)
        request, found = self._route(received)
        is_route = isinstance(found, web.UrlMappingMatchInfo)
        response: web.StreamResponse
        try:
            lane, limit_s = self._lanes.of(request)
            with lane:
                if isinstance(found, web.HTTPException):
                    response = self._lost(request, found)
                else:
                    response = await self._found(request, limit_s)
        except Exception as met:  # noqa: BLE001  # all of them become answers, none is swallowed
            response = self._explainer.answer(request, met)
        if is_route and dry_runs.is_act(request):
            audit.note(request, response.status)
        # A method that some route has; others are one label value.
        route, method = (route_of(request), request.method) if is_route else (_UNKNOWN, _UNKNOWN)
        self._requests.add(route, method, str(response.status))
        return response

    def _route(
        self, request: RoutedRequest
    ) -> tuple[RoutedRequest, web.UrlMappingMatchInfo | web.HTTPException]:
        """The request that is answered, and its route, or why it has none."""
        url = request.rel_url
        found = self._routes.find(request.method, url.path_safe)
        path = url.raw_path
        if isinstance(found, web.HTTPException) and path.endswith("/") and path != "/":
            # Jetty serves it all the same, and scripts and scrapers rely on it.
            path, query = path.rstrip("/") or "/", url.raw_query_string
            cut = request.clone(rel_url=URL.build(path=path, query_string=query, encoded=True))
            assert isinstance(cut, RoutedRequest)
            request = cut
            found = self._routes.find(request.method, request.rel_url.path_safe)
        if isinstance(found, web.UrlMappingMatchInfo):
            request.match_info = found
        return request, found

    async def _found(self, request: RoutedRequest, limit_s: float) -> web.StreamResponse:
        await _meet_expectation(request)
        refused = self._doorkeeper.refusal(request, route_of(request))
        if refused is not None:
            return refused
        dry_runs.check(request)
        with self._deadlines.within(limit_s):
            return await request.match_info.handler(request)

    def _lost(self, request: RoutedRequest, why: web.HTTPException) -> web.StreamResponse:
        """The answer to what no route serves; it is made, not raised: that would keep frames."""
        refused = self._doorkeeper.refusal(request, _UNKNOWN)
        if refused is not None:
            return refused
        elsewhere = not_here(request.path) if why.status == _NOT_FOUND else None
        return self._explainer.answer(request, elsewhere or why)


async def _meet_expectation(request: RoutedRequest) -> None:
    """Ask for a body that is announced.

    Raises:
        ApiError: 417, something else is expected.
    """
    expected = request.headers.get(hdrs.EXPECT)
    if not expected:
        return
    if expected.lower() != _CONTINUE:
        raise ApiError(417, f"the only expectation that is met is {_CONTINUE}")
    await request.match_info.expect_handler(request)
    await request.writer.drain()
