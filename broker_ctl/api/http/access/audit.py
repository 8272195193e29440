"""The audit log of HTTP: each change, done or not, and each refused request."""

import logging
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http.access.authorization import operator_of, principal_of
from broker_ctl.api.http.dry_runs import is_operator_action
from broker_ctl.api.http.responses import ApiError
from broker_ctl.clock import Clock
from broker_ctl.security.audit.event import AuditEvent, EventKind, request_id_of, summarise
from broker_ctl.security.audit.log import AuditLog

log = logging.getLogger(__name__)

_MAX_PATH_LENGTH: Final = 300
_REDIRECTED: Final = 307
_FIRST_ERROR: Final = 400
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSALS: Final = frozenset({401, 403, 415, 421, 429})
_REQUEST_ID: Final = "X-Request-Id"
_IS_CHANGE: Final = web.RequestKey("is_change", bool)
_BEFORE: Final = web.RequestKey("audit_before", object)
_AFTER: Final = web.RequestKey("audit_after", object)


class AuditTrail:
    """Reports the requests of one server to the audit log."""

    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock

    def begin(self, request: web.Request) -> None:
        """Note that a request reaches its handler.

        Raises:
            ApiError: 503, it may change something, and could not be recorded.
        """
        if request.method in _READS:
            return
        if self._audit.must_refuse:
            raise ApiError(
                503,
                "the audit log of this broker cannot be written, and auditRequired=true: nothing "
                "was done",
                kind="AuditUnavailable",
            )
        request[_IS_CHANGE] = True

    def record(self, request: web.Request, route: str, response: web.StreamResponse) -> None:
        """Record a request with its response, if it is a change or was refused.

        The broker to which a change is redirected records it.
        """
        is_read, status = request.method in _READS, response.status
        if (is_read and status not in _REFUSALS) or status == _REDIRECTED:
            return
        is_change = request.get(_IS_CHANGE, False)
        if is_change and is_operator_action(request):
            _log_action(request, status)
        if is_change and _is_dry_run(request):
            return
        request_id = request_id_of(request.headers.get(_REQUEST_ID))
        response.headers[_REQUEST_ID] = request_id
        if not self._audit.is_on:
            return
        self._audit.record(
            AuditEvent(
                kind=EventKind.CHANGE if is_change else EventKind.REFUSAL,
                at_ms=self._clock.wall_ms(),
                request_id=request_id,
                principal=operator_of(request),
                proof=_proof_of(request),
                address=request.remote or "",
                operation=request.method,
                route=route,
                target=request.rel_url.raw_path,
                status=str(status),
                reason=response.reason or "" if status >= _FIRST_ERROR else "",
                before=request.get(_BEFORE),
                after=request.get(_AFTER),
            )
        )


def note_change(request: web.Request, *, before: Any = None, after: Any = None) -> None:
    """Keep what a handler changes for the audit log: JSON values without secrets.

    Call it before the write, so that an attempt that fails is recorded with it.
    """
    request[_BEFORE] = None if before is None else summarise(before)
    request[_AFTER] = None if after is None else summarise(after)


def _is_dry_run(request: web.Request) -> bool:
    return request.query.get("dry_run", "").lower() == "true"


def _proof_of(request: web.Request) -> str:
    principal = principal_of(request)
    if principal is not None:
        return principal.proof.value
    return "claimed" if operator_of(request) else ""


def _log_action(request: web.Request, status: int) -> None:
    who, path = operator_of(request) or "unknown operator", request.raw_path[:_MAX_PATH_LENGTH]
    log.info("%s at %s: %s %r: %d", who, request.remote, request.method, path, status)
