"""The audit log of HTTP: each change, done or not, and each refused request."""

import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web

from broker_ctl.api.http.access.authorization import client_of, operator_of, principal_of
from broker_ctl.api.http.access.peer_requests import sender_of
from broker_ctl.api.http.access.route_rules import Rule, access_of
from broker_ctl.api.http.responses import ApiError
from broker_ctl.clock import Clock
from broker_ctl.errors import BrokerCtlError
from broker_ctl.peer_http import REQUEST_ID, caused_by
from broker_ctl.security.audit.event import AuditEvent, EventKind, request_id_of, summarise
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authorization import Operation

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_MAX_PATH_LENGTH: Final = 300
_REDIRECTED: Final = 307
_FIRST_ERROR: Final = 400
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSALS: Final = frozenset({401, 403, 415, 421, 429})
_WRITE_LIMIT_S: Final = 2.0
_ID: Final = web.RequestKey("audit_request_id", str)
_IS_CHANGE: Final = web.RequestKey("is_change", bool)
_IS_ATTEMPTED: Final = web.RequestKey("is_attempted", bool)
_BEFORE: Final = web.RequestKey("audit_before", object)
_AFTER: Final = web.RequestKey("audit_after", object)


class AuditTrail:
    """Reports the requests of one server to the audit log."""

    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock

    async def begin(self, request: web.Request, route: str) -> None:
        """Note that a request reaches its handler; with ``auditRequired``, write that first.

        Raises:
            ApiError: 503, it may change something, and that could not be written.
        """
        if request.method in _READS:
            return
        if self._audit.is_required and not _is_dry_run(request):
            event = self._event(request, route, EventKind.ATTEMPT)
            if not await self._audit.write(event, _WRITE_LIMIT_S):
                raise ApiError(
                    503,
                    "the audit log of this broker cannot be written, and auditRequired=true: "
                    "nothing was done",
                    kind="AuditUnavailable",
                )
            request[_IS_ATTEMPTED] = True
        request[_IS_CHANGE] = True

    @contextmanager
    def passing_id(self, request: web.Request) -> Iterator[None]:
        """For the length of the block, requests to other brokers carry the id of this one.

        Tasks that begin in the block keep it.
        """
        if request.method in _READS:
            yield
            return
        # Reset: the next request of the connection runs in the same task.
        token = caused_by.set(_id_of(request))
        try:
            yield
        finally:
            caused_by.reset(token)

    def record(self, request: web.Request, route: str, response: web.StreamResponse) -> None:
        """Record a request with its response, if it is a change or was refused.

        The broker to which a change is redirected records it.
        """
        is_read, status = request.method in _READS, response.status
        if is_read and status not in _REFUSALS:
            return
        if status == _REDIRECTED and not request.get(_IS_ATTEMPTED, False):
            return
        if status == HTTPStatus.TOO_EARLY:
            # Nothing is decided yet: a broker is asked to sign again, for this start.
            return
        is_change = request.get(_IS_CHANGE, False)
        if is_change and _is_dry_run(request):
            return
        if is_change and _is_of_operator(request, route):
            _log_action(request, status)
        response.headers[REQUEST_ID] = _id_of(request)
        if self._audit.is_on:
            kind = EventKind.CHANGE if is_change else EventKind.REFUSAL
            self._audit.record(self._event(request, route, kind, response))

    def _event(
        self,
        request: web.Request,
        route: str,
        kind: EventKind,
        response: web.StreamResponse | None = None,
    ) -> AuditEvent:
        principal, proof, original = _who_sent(request)
        is_error = response is not None and response.status >= _FIRST_ERROR
        return AuditEvent(
            kind=kind,
            at_ms=self._clock.wall_ms(),
            request_id=_id_of(request),
            principal=principal,
            proof=proof,
            original_principal=original,
            address=request.remote or "",
            operation=request.method,
            route=route,
            target=request.rel_url.raw_path,
            status="" if response is None else str(response.status),
            reason=(response.reason or "") if response is not None and is_error else "",
            before=request.get(_BEFORE),
            after=request.get(_AFTER),
        )


def note_change(request: web.Request, *, before: Any = None, after: Any = None) -> None:
    """Keep what a handler changes for the audit log: JSON values without secrets.

    Call it before the write, so that an attempt that fails is recorded with it.
    """
    request[_BEFORE] = None if before is None else summarise(before)
    request[_AFTER] = None if after is None else summarise(after)


async def value_before(read: Awaitable[Value]) -> Value | None:
    """What a handler is about to change; None: it does not exist, or cannot be read."""
    try:
        return await read
    except BrokerCtlError:
        # The change itself meets the same error, and says so.
        return None


def _is_dry_run(request: web.Request) -> bool:
    return request.query.get("dry_run", "").lower() == "true"


def _is_of_operator(request: web.Request, route: str) -> bool:
    """Whether a change is an operator's own: neither a form, which sends it on, nor a broker's."""
    access = access_of(route, request.method)
    if not isinstance(access, Rule):
        return False
    is_command = access.operation is Operation.COMMAND
    # Without authentication nobody knows brokers apart, which send nearly all commands.
    return not is_command or (principal_of(request) is not None and not sender_of(request))


def _who_sent(request: web.Request) -> tuple[str, str, str]:
    """Principal, its proof, and the original principal of a request."""
    principal, client = principal_of(request), client_of(request)
    if principal is not None:
        original = "" if client is None else client.original
        return sender_of(request) or principal.role, principal.proof.value, original
    claimed = operator_of(request)
    return claimed, "claimed" if claimed else "", ""


def _id_of(request: web.Request) -> str:
    """The id of a request: the client's, or one that is drawn once."""
    known: str | None = request.get(_ID)
    if known is None:
        known = request[_ID] = request_id_of(request.headers.get(REQUEST_ID))
    return known


def _log_action(request: web.Request, status: int) -> None:
    who, path = operator_of(request) or "unknown operator", request.raw_path[:_MAX_PATH_LENGTH]
    log.info("%s at %s: %s %r: %d", who, request.remote, request.method, path, status)
