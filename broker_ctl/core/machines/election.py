"""Candidacy for one seat: a machine over what was read of its node (docs: pulsar-leader-election).

Every transition follows from one read, or from the session; a notification only asks for a read.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.errors import InvalidTransition


class State(StrEnum):
    """Where this candidate stands. SUSPENDED: it led, and the connection is gone."""

    ELECTING = "electing"
    FOLLOWING = "following"
    LEADING = "leading"
    SUSPENDED = "suspended"
    RESIGNED = "resigned"


class Event(StrEnum):
    """What was read (FREE, MINE, OTHERS), won or lost, or what became of session and work."""

    FREE = "free"
    MINE = "mine"
    OTHERS = "others"
    WON = "won"
    BEATEN = "beaten"
    CONNECTION_LOST = "connection lost"
    AUTHORITY_LOST = "authority lost"
    FAILED = "failed"
    RESIGN = "resign"


class Action(StrEnum):
    """What to do.

    STAND creates the node with a new epoch; LEAD and STEP_DOWN open and close the scope of
    leading; DELETE gives the seat back.
    """

    STAND = "stand"
    LEAD = "lead"
    STEP_DOWN = "step down"
    DELETE = "delete"


_FIRST_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 30.0
_MAX_DOUBLINGS: Final = 10
# Leading for so long makes earlier setbacks forgotten.
STABLE_S: Final = 300.0


def pause_s(setbacks: int, draw: float) -> float:
    """How long to stand back after so many leadings in a row that ended early (4.5: anti-flap).

    ``draw`` is uniform in 0 to 1. Others do not wait: whoever keeps losing the seat lets them
    have it, and alone it comes back all the same.
    """
    if not setbacks:
        return 0.0
    doubled_s: float = _FIRST_PAUSE_S * 2 ** min(setbacks - 1, _MAX_DOUBLINGS)
    return draw + min(doubled_s, _MAX_PAUSE_S)


_S, _E, _A = State, Event, Action

TRANSITIONS: Final[Mapping[tuple[State, Event], tuple[State, tuple[Action, ...]]]] = {
    (_S.ELECTING, _E.FREE): (_S.ELECTING, (_A.STAND,)),
    (_S.ELECTING, _E.OTHERS): (_S.FOLLOWING, ()),
    (_S.ELECTING, _E.WON): (_S.LEADING, (_A.LEAD,)),
    (_S.ELECTING, _E.BEATEN): (_S.ELECTING, ()),
    # Ours of this session, but we do not lead: a lost answer, or leading ended here before. A
    # new node gives a new epoch, so that nothing of the earlier leading can pass for new.
    (_S.ELECTING, _E.MINE): (_S.ELECTING, (_A.DELETE,)),
    (_S.ELECTING, _E.CONNECTION_LOST): (_S.ELECTING, ()),
    (_S.ELECTING, _E.AUTHORITY_LOST): (_S.ELECTING, ()),
    (_S.ELECTING, _E.RESIGN): (_S.RESIGNED, ()),
    (_S.FOLLOWING, _E.FREE): (_S.ELECTING, (_A.STAND,)),
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
    # Suspended leaders decide nothing, and lead on under the same epoch if the node still stands.
    (_S.SUSPENDED, _E.MINE): (_S.LEADING, ()),
    (_S.SUSPENDED, _E.CONNECTION_LOST): (_S.SUSPENDED, ()),
    (_S.SUSPENDED, _E.FREE): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.OTHERS): (_S.FOLLOWING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.AUTHORITY_LOST): (_S.ELECTING, (_A.STEP_DOWN,)),
    (_S.SUSPENDED, _E.FAILED): (_S.ELECTING, (_A.STEP_DOWN, _A.DELETE)),
    (_S.SUSPENDED, _E.RESIGN): (_S.RESIGNED, (_A.STEP_DOWN, _A.DELETE)),
}


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """The next state and what to do.

    Raises:
        InvalidTransition: the pair has no row.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition("leadership", state, event) from None
