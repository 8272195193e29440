"""The session as far as this broker may rely on it: a machine over events of store and lease.

``LOST`` is this broker's own verdict, reached while the server may still think otherwise;
``EXPIRED`` is the server's. Pulsar's four events are emitted as words of the grammar of its session
watcher, under its rules (docs: pulsar-session-watcher).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.errors import InvalidTransition


class State(StrEnum):
    """State of the session."""

    NONE = "none"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
    EXPIRED = "expired"
    CLOSED = "closed"


class Event(StrEnum):
    """What happened. DEADLINE: the authority ran out. LEASE_RENEWED: a heartbeat gave it back."""

    OPENED = "opened"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    DEADLINE = "deadline"
    LEASE_RENEWED = "lease renewed"
    EXPIRED = "expired"
    CLOSED = "closed"


class Action(StrEnum):
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


_RETURNED: Final = (Action.RECONNECTED, Action.SESSION_REESTABLISHED)
_GONE: Final = (Action.FENCE, Action.END)

TRANSITIONS: Final[Mapping[tuple[State, Event], tuple[State, tuple[Action, ...]]]] = {
    (State.NONE, Event.OPENED): (State.CONNECTED, (Action.BEGIN,)),
    (State.NONE, Event.CLOSED): (State.CLOSED, ()),
    (State.NONE, Event.EXPIRED): (State.NONE, ()),
    (State.NONE, Event.SUSPENDED): (State.NONE, ()),
    (State.NONE, Event.RECONNECTED): (State.CONNECTED, (Action.BEGIN,)),
    (State.CONNECTED, Event.SUSPENDED): (State.SUSPENDED, (Action.CONNECTION_LOST,)),
    (State.CONNECTED, Event.LEASE_RENEWED): (State.CONNECTED, ()),
    # The proof that ended LOST had been overtaken by the end of its connection.
    (State.CONNECTED, Event.RECONNECTED): (State.CONNECTED, (Action.VERIFY,)),
    # Connected, but nothing commits: a server without its leader still answers pings.
    (State.CONNECTED, Event.DEADLINE): (State.LOST, (Action.FENCE, Action.SESSION_LOST)),
    (State.CONNECTED, Event.EXPIRED): (State.EXPIRED, (*_GONE, Action.SESSION_LOST)),
    (State.CONNECTED, Event.CLOSED): (State.CLOSED, _GONE),
    (State.SUSPENDED, Event.RECONNECTED): (State.CONNECTED, (Action.RECONNECTED, Action.VERIFY)),
    (State.SUSPENDED, Event.LEASE_RENEWED): (State.SUSPENDED, ()),
    (State.SUSPENDED, Event.DEADLINE): (State.LOST, (Action.FENCE, Action.SESSION_LOST)),
    (State.SUSPENDED, Event.EXPIRED): (State.EXPIRED, (*_GONE, Action.SESSION_LOST)),
    (State.SUSPENDED, Event.CLOSED): (State.CLOSED, _GONE),
    # The same session again: rights come back with the next proof, not with the connection.
    (State.LOST, Event.RECONNECTED): (State.LOST, (Action.VERIFY,)),
    (State.LOST, Event.SUSPENDED): (State.LOST, ()),
    (State.LOST, Event.DEADLINE): (State.LOST, ()),
    (State.LOST, Event.LEASE_RENEWED): (State.CONNECTED, (*_RETURNED, Action.VERIFY)),
    (State.LOST, Event.EXPIRED): (State.EXPIRED, _GONE),
    (State.LOST, Event.CLOSED): (State.CLOSED, _GONE),
    (State.EXPIRED, Event.OPENED): (State.CONNECTED, (*_RETURNED, Action.BEGIN)),
    (State.EXPIRED, Event.SUSPENDED): (State.EXPIRED, ()),
    (State.EXPIRED, Event.DEADLINE): (State.EXPIRED, ()),
    # A heartbeat of the old session that was answered late.
    (State.EXPIRED, Event.LEASE_RENEWED): (State.EXPIRED, ()),
    (State.EXPIRED, Event.CLOSED): (State.CLOSED, ()),
}


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """The next state and what to do.

    Raises:
        InvalidTransition: the pair has no row.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition("session", state, event) from None
