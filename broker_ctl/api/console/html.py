"""Responses of the console: HTML and static files, under a strict Content-Security-Policy."""

from typing import Final

from aiohttp import hdrs

from broker_ctl.api.http.responses import ApiResponse
from broker_ctl.console.assets import Asset

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


def page(body: str, status: int = 200) -> ApiResponse:
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
