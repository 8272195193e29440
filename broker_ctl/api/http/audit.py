"""Acts of operators in the log: who, from where, what, and what came of it."""

import logging
from typing import Final

from aiohttp import web

from broker_ctl.api.http.authorization import who_in

log = logging.getLogger(__name__)

# A path may be long.
_MOST_PATH: Final = 300
_SENT_ON: Final = 307


def note(request: web.Request, status: int) -> None:
    """An act, done or refused; one that was sent on is told where it is done."""
    if status != _SENT_ON:
        who, path = who_in(request) or "somebody", request.raw_path[:_MOST_PATH]
        log.info("%s at %s: %s %r: %d", who, request.remote, request.method, path, status)
