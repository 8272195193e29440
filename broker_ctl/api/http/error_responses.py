"""The one place where an error becomes an answer."""

import itertools
import logging
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.errors import BrokerCtlError

log = logging.getLogger(__name__)

_UNKNOWN_ROUTE: Final = "unknown"


class ErrorRenderer:
    """Answers for what was raised. The log has the tracebacks of faults, by a number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def answer(self, request: web.Request, met: Exception) -> web.Response:
        """What the client is told.

        Raises:
            web.HTTPException: it is an answer already, and no refusal.
        """
        if isinstance(met, BrokerCtlError):
            return responses.of_error(met)
        if isinstance(met, web.HTTPException):
            return _refused(met)
        number = next(self._numbers)
        log.error(
            "request %d failed: %s %r", number, request.method, request.raw_path, exc_info=met
        )
        reason = f"internal error; the log of this broker has it as request {number}"
        return responses.error(500, "InternalError", reason)


def _refused(met: web.HTTPException) -> web.Response:
    """Aiohttp's own: no such path, another method, a body that is too long."""
    if met.status < 400:
        raise met
    refused = responses.error(met.status, type(met).__name__, met.reason)
    if "Allow" in met.headers:
        refused.headers["Allow"] = met.headers["Allow"]
    return refused


def route_of(request: web.Request) -> str:
    """The pattern that the path matched; ``unknown`` where it matched none."""
    resource = request.match_info.route.resource
    return _UNKNOWN_ROUTE if resource is None else resource.canonical
