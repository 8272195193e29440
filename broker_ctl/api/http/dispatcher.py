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
from broker_ctl.api.http.limits import RequestClasses, within
from broker_ctl.api.http.responses import ApiError
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
        self._router = web.UrlDispatcher()
        self._router.add_routes(routes)
        self._lanes = lanes
        self._doorkeeper = doorkeeper
        self._requests = requests
        self._max_body_bytes = max_body_bytes
        self._explainer = ErrorRenderer()

    def server(self, **options: Any) -> BoundedServer:
        """What answers on the connections of this event loop."""
        received = partial(
            _Received, loop=asyncio.get_running_loop(), client_max_size=self._max_body_bytes
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

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, _Received)
        match = await request.matched(self._router)
        response: web.StreamResponse
        try:
            lane, limit_s = self._lanes.of(request)
            with lane:
                if match.http_exception is not None:
                    response = self._lost(request, match.http_exception)
                else:
                    response = await self._found(request, match, limit_s)
        except Exception as met:  # noqa: BLE001  # all of them become answers, none is swallowed
            response = self._explainer.answer(request, met)
        is_route = match.http_exception is None
        if is_route and dry_runs.is_act(request):
            audit.note(request, response.status)
        # A method that some route has; others are one label value.
        route, method = (route_of(request), request.method) if is_route else (_UNKNOWN, _UNKNOWN)
        self._requests.add(route, method, str(response.status))
        return response

    async def _found(
        self, request: "_Received", match: web.UrlMappingMatchInfo, limit_s: float
    ) -> web.StreamResponse:
        await _meet_expectation(request, match)
        refused = self._doorkeeper.refusal(request, route_of(request))
        if refused is not None:
            return refused
        dry_runs.check(request)
        return await within(limit_s, match.handler(request))

    def _lost(self, request: "_Received", why: web.HTTPException) -> web.StreamResponse:
        """The answer to what no route serves; it is made, not raised: that would keep frames."""
        refused = self._doorkeeper.refusal(request, _UNKNOWN)
        if refused is not None:
            return refused
        elsewhere = not_here(request.path) if why.status == _NOT_FOUND else None
        return self._explainer.answer(request, elsewhere or why)


async def _meet_expectation(request: web.Request, match: web.UrlMappingMatchInfo) -> None:
    """Ask for a body that is announced.

    Raises:
        ApiError: 417, something else is expected.
    """
    expected = request.headers.get(hdrs.EXPECT)
    if not expected:
        return
    if expected.lower() != _CONTINUE:
        raise ApiError(417, f"the only expectation that is met is {_CONTINUE}")
    await match.expect_handler(request)
    await request.writer.drain()


async def _nobody(request: web.Request) -> web.StreamResponse:
    """In the place of a handler where no route serves a path."""
    raise ApiError(404, f"nobody serves {request.path}")


class _Received(web.Request):
    """A request that is told its route, as an application tells its own."""

    async def matched(self, router: web.UrlDispatcher) -> web.UrlMappingMatchInfo:
        found = await self._resolved(router)
        whole = self.rel_url.raw_path
        if found.http_exception is not None and whole.endswith("/") and whole != "/":
            # Jetty serves it all the same, and scripts and scrapers rely on it.
            query = self.rel_url.raw_query_string
            path = whole.rstrip("/") or "/"
            self._rel_url = URL.build(path=path, query_string=query, encoded=True)
            self._cache.pop("rel_url", None)
            found = await self._resolved(router)
        self._match_info = found
        return found

    async def _resolved(self, router: web.UrlDispatcher) -> web.UrlMappingMatchInfo:
        found = await router.resolve(self)
        if found.http_exception is not None:
            # Such a route holds itself: only the garbage collection would take it.
            vars(found.route)["_handler"] = _nobody
        return found
