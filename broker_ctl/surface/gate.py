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

from broker_ctl.instruments.kinds import Counter
from broker_ctl.surface import audit, dry_runs
from broker_ctl.surface.access import Doorkeeper
from broker_ctl.surface.bounds import Lanes, within
from broker_ctl.surface.errors import Explainer, route_of

_UNKNOWN: Final = "unknown"


class Gate:
    """Stands around all handlers. No traceback reaches a client."""

    def __init__(
        self,
        routes: Iterable[web.AbstractRouteDef],
        lanes: Lanes,
        doorkeeper: Doorkeeper,
        requests: Counter,
        max_body_bytes: int,
    ) -> None:
        self._router = web.UrlDispatcher()
        self._router.add_routes(routes)
        self._lanes = lanes
        self._doorkeeper = doorkeeper
        self._requests = requests
        self._max_body_bytes = max_body_bytes
        self._explainer = Explainer()

    def server(self, **options: Any) -> web.Server:
        """What answers on the connections of this event loop."""
        received = partial(
            _Received, loop=asyncio.get_running_loop(), client_max_size=self._max_body_bytes
        )
        return web.Server(self._answered, request_factory=received, **options)

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, _Received)
        match = await request.matched(self._router)
        if request.headers.get(hdrs.EXPECT):
            await match.expect_handler(request)
            await request.writer.drain()
        route = route_of(request)
        response: web.StreamResponse
        try:
            lane, limit_s = self._lanes.of(request)
            with lane:
                refused = self._doorkeeper.refusal(request, route)
                if refused is None:
                    dry_runs.check(request)
                response = refused or await within(limit_s, match.handler(request))
        except Exception as met:  # noqa: BLE001  # all of them become answers, none is swallowed
            response = self._explainer.answer(request, met)
        if dry_runs.is_act(request):
            audit.note(request, response.status)
        # A method that some route has; others are one label value.
        method = request.method if match.http_exception is None else _UNKNOWN
        self._requests.add(route, method, str(response.status))
        return response


class _Received(web.Request):
    """A request that is told its route, as an application tells its own."""

    async def matched(self, router: web.UrlDispatcher) -> web.UrlMappingMatchInfo:
        self._match_info = await router.resolve(self)
        return self._match_info
