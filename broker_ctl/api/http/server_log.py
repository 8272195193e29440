"""Messages of aiohttp's server, in this package's log.

Malformed requests get a 400 and are counted. An error with a traceback for each would let a slow
client fill a disk.
"""

import logging
from collections.abc import Callable
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger(__name__)


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """Logs server errors as errors, malformed requests at debug level.

    Args:
        on_malformed: called for each request that is not HTTP.
    """

    def __init__(self, on_malformed: Callable[[], None]) -> None:
        super().__init__(log)
        self._on_malformed = on_malformed

    def log(
        self, level: int, msg: object, *args: object, exc_info: Any = None, **kwargs: Any
    ) -> None:
        """Log a message of the server."""
        if isinstance(exc_info, HttpProcessingError):
            self._on_malformed()
            super().log(logging.DEBUG, "malformed HTTP request: %s", type(exc_info).__name__)
            return
        super().log(level, msg, *args, exc_info=exc_info, **kwargs)
