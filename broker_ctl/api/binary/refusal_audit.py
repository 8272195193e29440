"""The audit log of the binary protocol: refused connections and requests. It changes nothing else.

A broker process behind it also refuses clients; those are not here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.security.audit.event import AuditEvent, EventKind, request_id_of
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authorization import Client

# Other errors say nothing of what a client may do.
_REFUSALS: Final = frozenset(
    {
        ServerError.AuthenticationError,
        ServerError.AuthorizationError,
        ServerError.TooManyRequests,
    }
)


class RefusedSender(NamedTuple):
    """Who sent a command.

    Attributes:
        origin: address; see `origins`.
        client: None: it has not authenticated.
    """

    origin: str
    client: Client | None


class Asked(Protocol):
    """A request: its command has a request id, and a topic or a namespace."""

    @property
    def kind(self) -> CommandType:
        """The type of the command."""

    @property
    def command(self) -> Any:
        """The command's own message."""


class RefusalAudit:
    """Records refusals; events have the number of the request on its connection as request id.

    Args:
        audit: None: nothing is recorded.
    """

    def __init__(self, audit: AuditLog | None, wall_ms: Callable[[], int]) -> None:
        self._audit = audit if audit is not None and audit.is_on else None
        self._wall_ms = wall_ms

    def refuse_connection(self, sender: RefusedSender, why: ServerError, reason: str) -> None:
        """Record a client whose CONNECT is refused, or whose proof has expired."""
        if self._audit is not None:
            self._audit.record(self._event(sender, CommandType.CONNECT, why, reason))

    def refuse_request(
        self, sender: RefusedSender, request: Asked, why: ServerError, reason: str
    ) -> None:
        """Record a request that failed, if that is for want of a right or beyond a rate."""
        if self._audit is None or why not in _REFUSALS:
            return
        kind, command = request.kind, request.command
        is_list = kind is CommandType.GET_TOPICS_OF_NAMESPACE
        event = self._event(sender, kind, why, reason)
        self._audit.record(
            replace(
                event,
                target=str(command.namespace if is_list else command.topic),
                request_id=str(command.request_id),
            )
        )

    def _event(
        self, sender: RefusedSender, kind: CommandType, why: ServerError, reason: str
    ) -> AuditEvent:
        client = sender.client
        return AuditEvent(
            kind=EventKind.REFUSAL,
            at_ms=self._wall_ms(),
            request_id=request_id_of(None),
            principal="" if client is None else client.role,
            original_principal="" if client is None else client.original,
            address=sender.origin,
            operation=kind.name,
            status=why.name,
            reason=reason,
        )
