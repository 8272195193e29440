"""One move of a bundle from broker A to broker B: a machine over the answers to commands.

The record of the move is the reservation. B is asked, A releases, B acquires and serves; the record
is deleted last. A command without an answer is resolved by reading the owner node and the record. A
new leader starts with the same read for a move that it finds, so a move may be interrupted after
any step, and the next leader finishes it. No step gives a bundle a second owner: only its broker
deletes an owner node, only a broker that finds none creates one, and both check record and epoch in
the same transaction.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class MoveState(StrEnum):
    """State of the move, as far as the leader knows.

    RESERVED   the record exists, B was asked
    PREPARED   B will acquire it, A was asked to release it
    RELEASED   it has no owner, B was asked to acquire it
    IN_DOUBT   an answer is missing or a refusal, or the move was taken over: a read decides
    STRANDED   it has no owner, and B cannot acquire it
    RECEIVED   B serves it; the record is to be deleted
    ABORTING   B does not acquire it; the record is to be deleted
    ENDED      B serves it
    ABORTED    it stays where it is, or the next placement decides
    """

    RESERVED = "reserved"
    PREPARED = "prepared"
    RELEASED = "released"
    IN_DOUBT = "in doubt"
    STRANDED = "stranded"
    RECEIVED = "received"
    ABORTING = "aborting"
    ENDED = "ended"
    ABORTED = "aborted"


class MoveEvent(StrEnum):
    """Outcome of an action.

    EXECUTED, REFUSED and UNANSWERED follow on a command. AT_SOURCE (A under the token that was to
    end), AT_DESTINATION, ELSEWHERE, FREE (and B can be asked), STRAY (free, and B cannot) and OVER
    (the record is gone) follow on a read; REROUTED, NO_RECEIVER and REFUSED (by the store) on the
    choice of another B; CLOSED on the end of the record.
    """

    EXECUTED = "executed"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    AT_SOURCE = "at source"
    AT_DESTINATION = "at destination"
    ELSEWHERE = "elsewhere"
    FREE = "free"
    STRAY = "stray"
    OVER = "over"
    REROUTED = "rerouted"
    NO_RECEIVER = "no receiver"
    CLOSED = "closed"


class MoveAction(StrEnum):
    """What to do: three commands, a read, another destination, the end of the record."""

    PREPARE = "prepare"
    RELEASE = "release"
    RECEIVE = "receive"
    LOOK = "look"
    REROUTE = "reroute"
    CLOSE = "close"


_S, _E, _A = MoveState, MoveEvent, MoveAction

Step = tuple[MoveState, tuple[MoveAction, ...]]

# A move that this leader begins, once its record exists.
BEGUN: Final[Step] = (_S.RESERVED, (_A.PREPARE,))
# One that an earlier leader began, once its record was written again.
ADOPTED: Final[Step] = (_S.IN_DOUBT, (_A.LOOK,))

TRANSITIONS: Final[Mapping[tuple[MoveState, MoveEvent], Step]] = {
    (_S.RESERVED, _E.EXECUTED): (_S.PREPARED, (_A.RELEASE,)),
    # Nothing has changed yet, and a B that did not answer would not be the right one.
    (_S.RESERVED, _E.REFUSED): (_S.ABORTING, (_A.CLOSE,)),
    (_S.RESERVED, _E.UNANSWERED): (_S.ABORTING, (_A.CLOSE,)),
    (_S.PREPARED, _E.EXECUTED): (_S.RELEASED, (_A.RECEIVE,)),
    (_S.PREPARED, _E.REFUSED): (_S.IN_DOUBT, (_A.LOOK,)),
    (_S.PREPARED, _E.UNANSWERED): (_S.IN_DOUBT, (_A.LOOK,)),
    (_S.RELEASED, _E.EXECUTED): (_S.RECEIVED, (_A.CLOSE,)),
    (_S.RELEASED, _E.REFUSED): (_S.IN_DOUBT, (_A.LOOK,)),
    (_S.RELEASED, _E.UNANSWERED): (_S.IN_DOUBT, (_A.LOOK,)),
    # Without the record A's release is refused, even one that is under way: it serves on.
    (_S.IN_DOUBT, _E.AT_SOURCE): (_S.ABORTING, (_A.CLOSE,)),
    (_S.IN_DOUBT, _E.AT_DESTINATION): (_S.RECEIVED, (_A.CLOSE,)),
    (_S.IN_DOUBT, _E.ELSEWHERE): (_S.ABORTING, (_A.CLOSE,)),
    (_S.IN_DOUBT, _E.FREE): (_S.RELEASED, (_A.RECEIVE,)),
    (_S.IN_DOUBT, _E.STRAY): (_S.STRANDED, (_A.REROUTE,)),
    (_S.IN_DOUBT, _E.OVER): (_S.ABORTED, ()),
    (_S.STRANDED, _E.REROUTED): (_S.RELEASED, (_A.RECEIVE,)),
    # The record had changed: B was only slow, and has ended it.
    (_S.STRANDED, _E.REFUSED): (_S.IN_DOUBT, (_A.LOOK,)),
    # A record that no broker can fulfil would keep lookups waiting for ever.
    (_S.STRANDED, _E.NO_RECEIVER): (_S.ABORTING, (_A.CLOSE,)),
    (_S.RECEIVED, _E.CLOSED): (_S.ENDED, ()),
    (_S.ABORTING, _E.CLOSED): (_S.ABORTED, ()),
}

step: Final = StateMachine("move", TRANSITIONS).step
