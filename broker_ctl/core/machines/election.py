"""Candidacy in one election: a machine over reads of its node (docs: pulsar-leader-election).

Every transition follows from one read, or from the session; a notification only asks for a read.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class ElectionState(StrEnum):
    """State of this candidate. SUSPENDED: it led, and the connection is gone."""

    ELECTING = "electing"
    FOLLOWING = "following"
    LEADING = "leading"
    SUSPENDED = "suspended"
    RESIGNED = "resigned"


class ElectionEvent(StrEnum):
    """Result of a read (FREE, MINE, OTHERS) or of a create, or a change of session or work."""

    FREE = "free"
    MINE = "mine"
    OTHERS = "others"
    WON = "won"
    BEATEN = "beaten"
    CONNECTION_LOST = "connection lost"
    AUTHORITY_LOST = "authority lost"
    FAILED = "failed"
    RESIGN = "resign"


class ElectionAction(StrEnum):
    """What to do.

    CREATE creates the node with a new epoch; LEAD and STEP_DOWN begin and end the term; DELETE
    resigns.
    """

    CREATE = "create"
    LEAD = "lead"
    STEP_DOWN = "step down"
    DELETE = "delete"


_FIRST_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 30.0
_MAX_DOUBLINGS: Final = 10
# A term of this length resets the count of setbacks.
STABLE_S: Final = 300.0


def pause_s(setbacks: int, draw: float) -> float:
    """Pause from the end of the last term and its node, after consecutive ones that ended early.

    ``draw`` is uniform in 0 to 1. Other candidates do not wait: a leader that keeps failing gives
    way to them, and without any it is elected again.
    """
    if not setbacks:
        return 0.0
    doubled_s: float = _FIRST_PAUSE_S * 2 ** min(setbacks - 1, _MAX_DOUBLINGS)
    return draw + min(doubled_s, _MAX_PAUSE_S)


_S, _E, _A = ElectionState, ElectionEvent, ElectionAction

TRANSITIONS: Final[
    Mapping[tuple[ElectionState, ElectionEvent], tuple[ElectionState, tuple[ElectionAction, ...]]]
] = {
    (_S.ELECTING, _E.FREE): (_S.ELECTING, (_A.CREATE,)),
    (_S.ELECTING, _E.OTHERS): (_S.FOLLOWING, ()),
    (_S.ELECTING, _E.WON): (_S.LEADING, (_A.LEAD,)),
    (_S.ELECTING, _E.BEATEN): (_S.ELECTING, ()),
    # Ours of this session, but we do not lead: a lost answer, or a term ended here before. A new
    # node gives a new epoch, so that no act of the earlier term can pass for one of the new.
    (_S.ELECTING, _E.MINE): (_S.ELECTING, (_A.DELETE,)),
    (_S.ELECTING, _E.CONNECTION_LOST): (_S.ELECTING, ()),
    (_S.ELECTING, _E.AUTHORITY_LOST): (_S.ELECTING, ()),
    (_S.ELECTING, _E.RESIGN): (_S.RESIGNED, ()),
    (_S.FOLLOWING, _E.FREE): (_S.ELECTING, (_A.CREATE,)),
    (_S.FOLLOWING, _E.OTHERS): (_S.FOLLOWING, ()),
    (_S.FOLLOWING, _E.MINE): (_S.ELECTING, (_A.DELETE,)),
    (_S.FOLLOWING, _E.CONNECTION_LOST): (_S.FOLLOWING, ()),
    (_S.FOLLOWING, _E.AUTHORITY_LOST): (_S.FOLLOWING, ()),
    (_S.FOLLOWING, _E.RESIGN): (_S.RESIGNED, ()),
    (_S.LEADING, _E.MINE): (_S.LEADING, ()),
    (_S.LEADING, _E.CONNECTION_LOST): (_S.SUSPENDED, ()),
    (_S.LEADING, _E.FREE): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.LEADING, _E.OTHERS): (_S.FOLLOWING, (_A.STEP_DOWN,)),
    (_S.LEADING, _E.AUTHORITY_LOST): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.LEADING, _E.FAILED): (_S.ELECTING, (_A.STEP_DOWN, _A.DELETE)),
    (_S.LEADING, _E.RESIGN): (_S.RESIGNED, (_A.STEP_DOWN, _A.DELETE)),
    # Suspended leaders decide nothing, and go on under the same epoch if the node is still there.
    (_S.SUSPENDED, _E.MINE): (_S.LEADING, ()),
    (_S.SUSPENDED, _E.CONNECTION_LOST): (_S.SUSPENDED, ()),
    (_S.SUSPENDED, _E.FREE): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.OTHERS): (_S.FOLLOWING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.AUTHORITY_LOST): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.FAILED): (_S.ELECTING, (_A.STEP_DOWN, _A.DELETE)),
    (_S.SUSPENDED, _E.RESIGN): (_S.RESIGNED, (_A.STEP_DOWN, _A.DELETE)),
}

step: Final = StateMachine("leadership", TRANSITIONS).step
