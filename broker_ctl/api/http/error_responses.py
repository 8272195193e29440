"""Turns exceptions into responses, in this one place."""

import itertools
import logging
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.errors import BrokerCtlError

log = logging.getLogger(__name__)

_UNKNOWN_ROUTE: Final = "unknown"


class ErrorRenderer:
    """Renders exceptions. Tracebacks of internal errors go to the log, under a number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def render(self, request: web.Request, met: Exception) -> web.Response:
        """The response for an exception.

        Raises:
            web.HTTPException: it is a response already, with a status below 400.
        """
        if isinstance(met, BrokerCtlError):
            return responses.from_error(met)
        if isinstance(met, web.HTTPException):
            return _from_http_exception(met)
        number = next(self._numbers)
        log.error(
            "internal error %d: %s %r failed",
            number,
            request.method,
            request.raw_path,
            exc_info=met,
        )
        reason = f"internal error; the log of this broker has it as internal error {number}"
        return responses.error(500, "InternalError", reason)


def _from_http_exception(met: web.HTTPException) -> web.Response:
    """Aiohttp's own errors: no such path, another method, a body that is too long."""
    if met.status < 400:
        raise met
    response = responses.error(met.status, type(met).__name__, met.reason)
    if "Allow" in met.headers:
        response.headers["Allow"] = met.headers["Allow"]
    return response


def route_of(request: web.Request) -> str:
    """The pattern that the path matched; ``unknown`` where it matched none."""
    resource = request.match_info.route.resource
    return _UNKNOWN_ROUTE if resource is None else resource.canonical
