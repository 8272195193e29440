"""Audit log: each action of an operator, with who, from where, what and its status."""

import logging
from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.authorization import operator_of

log = logging.getLogger(__name__)

_MAX_PATH_LENGTH: Final = 300
_REDIRECTED: Final = 307


def record(request: web.Request, status: int) -> None:
    """Log an action, done or refused; a redirected one is logged by the broker that does it."""
    if status != _REDIRECTED:
        who, path = operator_of(request) or "unknown operator", request.raw_path[:_MAX_PATH_LENGTH]
        log.info("%s at %s: %s %r: %d", who, request.remote, request.method, path, status)
