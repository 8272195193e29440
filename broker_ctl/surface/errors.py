"""The one place where an error becomes an answer, and where answers are counted."""

import itertools
import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from broker_ctl.errors import BrokerCtlError
from broker_ctl.instruments.kinds import Counter
from broker_ctl.surface import answers

log = logging.getLogger(__name__)

_UNKNOWN_ROUTE = "unknown"


def error_middleware(requests: Counter) -> Middleware:
    """Stands around all others. No traceback reaches a client; the log has it, by a number."""
    numbers = itertools.count(1)

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except BrokerCtlError as met:
            return answers.of_error(met)
        except web.HTTPException as met:
            # aiohttp's own: no such path, another method, a body that is too long.
            if met.status < 400:
                raise
            refused = answers.error(met.status, type(met).__name__, met.reason)
            if "Allow" in met.headers:
                refused.headers["Allow"] = met.headers["Allow"]
            return refused
        except Exception:
            number = next(numbers)
            log.exception("request %d failed: %s %r", number, request.method, request.raw_path)
            reason = f"internal error; the log of this broker has it as request {number}"
            return answers.error(500, "InternalError", reason)

    @web.middleware
    async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await answer(request, handler)
        requests.add(route_of(request), _method_of(request), str(response.status))
        return response

    return counted


def route_of(request: web.Request) -> str:
    """The pattern that the path matched; ``unknown`` where it matched none."""
    resource = request.match_info.route.resource
    return _UNKNOWN_ROUTE if resource is None else resource.canonical


def _method_of(request: web.Request) -> str:
    """A method that some route has; others are one label value."""
    return request.method if request.match_info.http_exception is None else _UNKNOWN_ROUTE
