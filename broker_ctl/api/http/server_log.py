"""What aiohttp's server says of connections, in this package's log.

Whoever sends what is no HTTP is told so, and counted. An error with a traceback for each would let
a slow client fill a disk.
"""

import logging
from collections.abc import Callable
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger(__name__)


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """Faults of the server are errors, requests that it cannot read are for debugging.

    Args:
        on_malformed: called for each request that is no HTTP.
    """

    def __init__(self, on_malformed: Callable[[], None]) -> None:
        super().__init__(log)
        self._on_malformed = on_malformed

    def log(
        self, level: int, msg: object, *args: object, exc_info: Any = None, **kwargs: Any
    ) -> None:
        """Say what happened."""
        if isinstance(exc_info, HttpProcessingError):
            self._on_malformed()
            super().log(logging.DEBUG, "a request is no HTTP: %s", type(exc_info).__name__)
            return
        super().log(level, msg, *args, exc_info=exc_info, **kwargs)
