"""Log of requests that were rejected before they were read, at a bounded rate."""

import logging
from typing import Final

from aiohttp import web

from broker_ctl.clock import Clock

log = logging.getLogger(__name__)

# Logged one by one in each minute; any further ones are only counted.
_MAX_LOGGED: Final = 10
_WINDOW_S: Final = 60.0
_MAX_PATH_LENGTH: Final = 300


class RejectedRequests:
    """Rejected requests of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = 0.0
        self._rejected = 0

    def record(self, request: web.Request, status: int, reason: str) -> None:
        """Log a request that was rejected with this status, or only count it."""
        now_s = self._clock.now_s()
        if now_s - self._began_s >= _WINDOW_S:
            if self._rejected > _MAX_LOGGED:
                log.warning("%d more requests were rejected", self._rejected - _MAX_LOGGED)
            self._began_s, self._rejected = now_s, 0
        self._rejected += 1
        if self._rejected > _MAX_LOGGED:
            return
        path = request.raw_path[:_MAX_PATH_LENGTH]
        log.warning(
            "rejected with %d: %s %r from %s, %s",
            status,
            request.method,
            path,
            request.remote,
            reason,
        )
