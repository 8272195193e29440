"""``dry_run=true``: a request is judged as ever, and ends before anything is written.

The handler that acts is the one that judges: it goes as far as its first write. So a dry run is
refused for what the act would be refused for, in the same words. Where a handler knows of no dry
run the request is refused: it would have been carried out.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.request_params import flag
from broker_ctl.api.http.responses import ApiError

_PARAMETER: Final = "dry_run"
_READS: Final = frozenset({"GET", "HEAD"})
_MARK: Final = "knows_dry_runs"

H = TypeVar("H", bound=Callable[..., Awaitable[web.StreamResponse]])


def knows_dry_runs(handler: H) -> H:
    """Marks a handler that looks at `is_dry_run` before it writes anything."""
    setattr(handler, _MARK, True)
    return handler


def is_dry_run(request: web.Request) -> bool:
    """Whether nothing is to be written.

    Raises:
        ApiError: 400, neither true nor false.
    """
    return flag(request, _PARAMETER)


def check(request: web.Request) -> None:
    """Let no dry run through to a handler that would act.

    Raises:
        ApiError: 400, it would.
    """
    if request.method in _READS or not is_dry_run(request):
        return
    if not _is_marked(request):
        raise ApiError(400, "this request has no dry run: nothing was done", kind="NoDryRun")


def is_act(request: web.Request) -> bool:
    """Whether an operator had something done, or tried to."""
    return _is_marked(request) and request.query.get(_PARAMETER, "").lower() != "true"


def _is_marked(request: web.Request) -> bool:
    return getattr(request.match_info.handler, _MARK, False)


def judged(**found: Any) -> web.Response:
    """Nothing stands against it; ``found`` is what it would be done to."""
    return responses.json({"dry_run": True, **found})
