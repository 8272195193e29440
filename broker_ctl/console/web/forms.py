"""Forms of the console, and the headers of its pages."""

from collections import Counter
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.limits.connections import HttpConnection
from broker_ctl.api.http.responses import ApiError, ApiResponse
from broker_ctl.console.render import Asset
from broker_ctl.instruments.clients import BoundInstruments

# Responses of the console: HTML and static files, under a strict Content-Security-Policy.


_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFE_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    # The origin of a form's request is judged: with no-referrer a browser would hide it.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_IMMUTABLE: Final = "public, max-age=31536000, immutable"


def html_page(body: str, status: int = 200) -> ApiResponse:
    """A page, which no cache keeps: it is of one client and one moment."""
    return ApiResponse(
        text=body,
        status=status,
        content_type="text/html",
        charset="utf-8",
        headers={**SAFE_HEADERS, hdrs.CACHE_CONTROL: "no-store"},
    )


def static(asset: Asset) -> ApiResponse:
    """A static file; its name changes with its content, so that browsers never ask again."""
    return ApiResponse(
        body=asset.body,
        content_type=asset.content_type,
        charset="utf-8",
        headers={**SAFE_HEADERS, hdrs.CACHE_CONTROL: _IMMUTABLE},
    )


def see_other(location: str) -> ApiResponse:
    """Another page of the console, to be fetched by GET."""
    return ApiResponse(status=303, headers={**SAFE_HEADERS, hdrs.LOCATION: location})


# Forms of the console: small, and read for a bounded number of clients at a time.


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
        assert isinstance(connection, HttpConnection)
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
