"""What every request passes on its way in and out.

In: a place among those in progress, then who may ask for it, then the route. Out: whatever was
raised becomes an answer, and is counted by route, method and status. One middleware, since each
layer of them costs as much as finding the owner of a bundle.
"""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from broker_ctl.instruments.kinds import Counter
from broker_ctl.surface.access import Doorkeeper
from broker_ctl.surface.bounds import Lanes, within
from broker_ctl.surface.errors import Explainer, route_of

_UNKNOWN = "unknown"


def gate(lanes: Lanes, doorkeeper: Doorkeeper, requests: Counter) -> Middleware:
    """Stands around all handlers. No traceback reaches a client."""
    explainer = Explainer()

    @web.middleware
    async def passed(request: web.Request, handler: Handler) -> web.StreamResponse:
        route = route_of(request)
        response: web.StreamResponse
        try:
            lane, limit_s = lanes.of(request)
            with lane:
                refused = doorkeeper.refusal(request, route)
                response = refused or await within(limit_s, handler(request))
        except Exception as met:  # noqa: BLE001  # all of them become answers, none is swallowed
            response = explainer.answer(request, met)
        requests.add(route, _method_of(request), str(response.status))
        return response

    return passed


def _method_of(request: web.Request) -> str:
    """A method that some route has; others are one label value."""
    return request.method if request.match_info.http_exception is None else _UNKNOWN
