"""Requests without a token, or with one that does not suffice: whoever tries shows in the log.

However many they are, they do not fill it.
"""

import logging
from typing import Final

from aiohttp import web

from broker_ctl.clock import Clock

log = logging.getLogger(__name__)

# So many a minute are told one by one; the others are counted.
_MOST_TOLD: Final = 10
_WINDOW_S: Final = 60.0
# A path may be long.
_MOST_PATH: Final = 300


class RejectedRequests:
    """Those of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = 0.0
        self._count = 0

    def note(self, request: web.Request, status: int, role: str) -> None:
        """One was answered 401 or 403."""
        now_s = self._clock.now_s()
        if now_s - self._began_s >= _WINDOW_S:
            if self._count > _MOST_TOLD:
                log.warning("%d more requests were turned away", self._count - _MOST_TOLD)
            self._began_s, self._count = now_s, 0
        self._count += 1
        if self._count > _MOST_TOLD:
            return
        who = f"role {role}" if role else "no known token"
        path = request.raw_path[:_MOST_PATH]
        log.warning(
            "turned away with %d: %s %r from %s, %s",
            status,
            request.method,
            path,
            request.remote,
            who,
        )
