"""``dry_run=true``: a request is checked as usual, and ends before its first write.

The same handler serves both, so a dry run fails with the error that the action would fail with. A
handler without support for dry runs rejects one, because it would carry the action out.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.request_params import flag
from broker_ctl.api.http.responses import ApiError

PARAMETER: Final = "dry_run"
_READS: Final = frozenset({"GET", "HEAD"})
_MARK: Final = "supports_dry_run"

H = TypeVar("H", bound=Callable[..., Awaitable[web.StreamResponse]])


def supports_dry_run(handler: H) -> H:
    """Mark a handler that checks `is_dry_run` before its first write."""
    setattr(handler, _MARK, True)
    return handler


def is_dry_run(request: web.Request) -> bool:
    """Whether the request must write nothing.

    Raises:
        ApiError: 400, neither true nor false.
    """
    return flag(request, PARAMETER)


def check(request: web.Request) -> None:
    """Reject a dry run of a handler that does not support it.

    Raises:
        ApiError: 400, the handler would act.
    """
    if request.method in _READS or not is_dry_run(request):
        return
    if not _is_marked(request):
        raise ApiError(400, "this request has no dry run: nothing was done", kind="NoDryRun")


def has_dry_run(handler: Callable[..., Any]) -> bool:
    """Whether a handler supports dry runs."""
    return getattr(handler, _MARK, False)


def _is_marked(request: web.Request) -> bool:
    return has_dry_run(request.match_info.handler)


def report_dry_run(**found: Any) -> web.Response:
    """The response of a dry run without objections; ``found`` is what the action would affect."""
    return responses.json({"dry_run": True, **found})
