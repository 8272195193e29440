"""The session as far as this broker may rely on it: a machine over events of store and lease.

``LOST`` is this broker's own verdict, reached while the server may still think otherwise;
``EXPIRED`` is the server's. Pulsar's four events are emitted as words of the grammar of its session
watcher, under its rules (docs: pulsar-session-watcher).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class SessionState(StrEnum):
    """State of the session."""

    NONE = "none"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
    EXPIRED = "expired"
    CLOSED = "closed"


class SessionMachineEvent(StrEnum):
    """What happened. DEADLINE: the authority ran out. LEASE_RENEWED: a heartbeat gave it back."""

    OPENED = "opened"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    DEADLINE = "deadline"
    LEASE_RENEWED = "lease renewed"
    EXPIRED = "expired"
    CLOSED = "closed"


class SessionAction(StrEnum):
    """What to do about it, in order.

    FENCE withdraws the data plane's authority at once; VERIFY reads every own node again;
    BEGIN and END open and close the scope of one session. The last four notify listeners.
    """

    FENCE = "fence"
    VERIFY = "verify"
    BEGIN = "begin"
    END = "end"
    CONNECTION_LOST = "ConnectionLost"
    RECONNECTED = "Reconnected"
    SESSION_LOST = "SessionLost"
    SESSION_REESTABLISHED = "SessionReestablished"


_S, _E, _A = SessionState, SessionMachineEvent, SessionAction

_RETURNED: Final = (_A.RECONNECTED, _A.SESSION_REESTABLISHED)
_GONE: Final = (_A.FENCE, _A.END)

TRANSITIONS: Final[
    Mapping[
        tuple[SessionState, SessionMachineEvent], tuple[SessionState, tuple[SessionAction, ...]]
    ]
] = {
    (_S.NONE, _E.OPENED): (_S.CONNECTED, (_A.BEGIN,)),
    (_S.NONE, _E.CLOSED): (_S.CLOSED, ()),
    (_S.NONE, _E.EXPIRED): (_S.NONE, ()),
    (_S.NONE, _E.SUSPENDED): (_S.NONE, ()),
    (_S.NONE, _E.RECONNECTED): (_S.CONNECTED, (_A.BEGIN,)),
    (_S.CONNECTED, _E.SUSPENDED): (_S.SUSPENDED, (_A.CONNECTION_LOST,)),
    (_S.CONNECTED, _E.LEASE_RENEWED): (_S.CONNECTED, ()),
    # The proof that ended LOST had been overtaken by the end of its connection.
    (_S.CONNECTED, _E.RECONNECTED): (_S.CONNECTED, (_A.VERIFY,)),
    # Connected, but nothing commits: a server without its leader still answers pings.
    (_S.CONNECTED, _E.DEADLINE): (_S.LOST, (_A.FENCE, _A.SESSION_LOST)),
    (_S.CONNECTED, _E.EXPIRED): (_S.EXPIRED, (*_GONE, _A.SESSION_LOST)),
    (_S.CONNECTED, _E.CLOSED): (_S.CLOSED, _GONE),
    (_S.SUSPENDED, _E.RECONNECTED): (_S.CONNECTED, (_A.RECONNECTED, _A.VERIFY)),
    (_S.SUSPENDED, _E.LEASE_RENEWED): (_S.SUSPENDED, ()),
    (_S.SUSPENDED, _E.DEADLINE): (_S.LOST, (_A.FENCE, _A.SESSION_LOST)),
    (_S.SUSPENDED, _E.EXPIRED): (_S.EXPIRED, (*_GONE, _A.SESSION_LOST)),
    (_S.SUSPENDED, _E.CLOSED): (_S.CLOSED, _GONE),
    # The same session again: rights come back with the next proof, not with the connection.
    (_S.LOST, _E.RECONNECTED): (_S.LOST, (_A.VERIFY,)),
    (_S.LOST, _E.SUSPENDED): (_S.LOST, ()),
    (_S.LOST, _E.DEADLINE): (_S.LOST, ()),
    (_S.LOST, _E.LEASE_RENEWED): (_S.CONNECTED, (*_RETURNED, _A.VERIFY)),
    (_S.LOST, _E.EXPIRED): (_S.EXPIRED, _GONE),
    (_S.LOST, _E.CLOSED): (_S.CLOSED, _GONE),
    (_S.EXPIRED, _E.OPENED): (_S.CONNECTED, (*_RETURNED, _A.BEGIN)),
    (_S.EXPIRED, _E.SUSPENDED): (_S.EXPIRED, ()),
    (_S.EXPIRED, _E.DEADLINE): (_S.EXPIRED, ()),
    # A heartbeat of the old session that was answered late.
    (_S.EXPIRED, _E.LEASE_RENEWED): (_S.EXPIRED, ()),
    (_S.EXPIRED, _E.CLOSED): (_S.CLOSED, ()),
}

step: Final = StateMachine("session", TRANSITIONS).step
