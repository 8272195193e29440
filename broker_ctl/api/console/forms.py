"""Forms of the console: small, and read for a bounded number of clients at a time."""

from collections import Counter
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.limits.connections import Connection
from broker_ctl.api.http.responses import ApiError
from broker_ctl.instruments.bounds import BoundInstruments

_TYPE: Final = "application/x-www-form-urlencoded"
# A token has up to 8 KiB, and the moves of a plan are a form of an operator.
MOST_OF_SIGN_IN: Final = 16 * 1024
MOST_OF_ACT: Final = 256 * 1024
_MOST_FIELDS: Final = 64
# Who sends one is not known yet: many that never end leave the pages of others alone.
_MOST_FORMS: Final = 64
_MOST_OF_ADDRESS: Final = 8


class Forms:
    """Reads forms; those beyond the bound are refused, and their bodies are not read.

    Attributes:
        reading: how many are being read, by address.
        refused: how many were refused so far.
    """

    def __init__(self, bounds: BoundInstruments) -> None:
        self.limit: Final = _MOST_FORMS
        self.reading: Counter[str] = Counter()
        self.refused = 0
        bounds.follow(
            "console-forms",
            used=self.reading.total,
            limit=lambda: self.limit,
            refused=lambda: self.refused,
        )

    async def read(self, request: web.Request, most_bytes: int) -> dict[str, str]:
        """The fields of a form, the last one of each name.

        Raises:
            ApiError: 400, not a form, or incomplete; 408, not sent in time; 413, too large; 503,
                too many are being read.
        """
        if request.content_type != _TYPE:
            raise ApiError(400, f"Content-Type must be {_TYPE}")
        connection = request.protocol
        assert isinstance(connection, Connection)
        origin = connection.origin
        is_full = self.reading.total() >= self.limit
        if is_full or self.reading[origin] >= _MOST_OF_ADDRESS:
            self.refused += 1
            raise ApiError(503, "too many forms are being sent: try again", kind="Busy")
        self.reading[origin] += 1
        try:
            body = await read_bounded(request, most_bytes)
        finally:
            self.reading[origin] -= 1
            if not self.reading[origin]:
                del self.reading[origin]
        try:
            return dict(
                parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
            )
        except ValueError:
            raise ApiError(400, "the form cannot be read") from None
