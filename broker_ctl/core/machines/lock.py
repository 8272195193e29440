"""A lock held by an ephemeral node: a machine over reads of the node.

Identity is ``(czxid, session)``: a version starts again at 0 with each new node, so it proves
nothing (docs: zookeeper-wire, pulsar-resource-lock). The czxid is the fencing token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class LockState(StrEnum):
    """State of one generation of a lock; LOST and RELEASED are final."""

    HELD = "held"
    SUSPECT = "suspect"
    VERIFYING = "verifying"
    RELEASING = "releasing"
    LOST = "lost"
    RELEASED = "released"


class LockEvent(StrEnum):
    """What happened. MINE, GONE and OTHER are the answers of a read of the node.

    RELEASE asks for the end; DONE says that the node is gone, or left to the queue of pending
    deletions; REFUSED that the transaction was rolled back and the node is still there.
    """

    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    NODE_DELETED = "node deleted"
    MINE = "mine"
    GONE = "gone"
    OTHER = "other"
    SESSION_ENDED = "session ended"
    RELEASE = "release"
    DONE = "done"
    REFUSED = "refused"


class LockAction(StrEnum):
    """What to do. READ answers with MINE, GONE or OTHER; DELETE with DONE or REFUSED.

    NOTIFY_LOST is for a lock that was taken away while its session lives. The end of a session ends
    all locks at once, and their holders learn of it from the session.
    """

    READ = "read"
    DELETE = "delete"
    NOTIFY_LOST = "notify lost"


_S, _E, _A = LockState, LockEvent, LockAction

TRANSITIONS: Final[
    Mapping[tuple[LockState, LockEvent], tuple[LockState, tuple[LockAction, ...]]]
] = {
    (_S.HELD, _E.SUSPENDED): (_S.SUSPECT, ()),
    (_S.HELD, _E.RECONNECTED): (_S.VERIFYING, (_A.READ,)),
    (_S.HELD, _E.NODE_DELETED): (_S.VERIFYING, (_A.READ,)),
    # Of two reads the later one may find the doubt settled by the earlier.
    (_S.HELD, _E.MINE): (_S.HELD, ()),
    (_S.HELD, _E.GONE): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.HELD, _E.OTHER): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.HELD, _E.SESSION_ENDED): (_S.LOST, ()),
    (_S.HELD, _E.RELEASE): (_S.RELEASING, (_A.DELETE,)),
    (_S.SUSPECT, _E.SUSPENDED): (_S.SUSPECT, ()),
    (_S.SUSPECT, _E.RECONNECTED): (_S.VERIFYING, (_A.READ,)),
    (_S.SUSPECT, _E.NODE_DELETED): (_S.VERIFYING, (_A.READ,)),
    # A read that was sent before the connection was lost again, and answered after.
    (_S.SUSPECT, _E.MINE): (_S.SUSPECT, ()),
    (_S.SUSPECT, _E.GONE): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.SUSPECT, _E.OTHER): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.SUSPECT, _E.SESSION_ENDED): (_S.LOST, ()),
    (_S.SUSPECT, _E.RELEASE): (_S.RELEASING, (_A.DELETE,)),
    (_S.VERIFYING, _E.SUSPENDED): (_S.SUSPECT, ()),
    (_S.VERIFYING, _E.RECONNECTED): (_S.VERIFYING, (_A.READ,)),
    (_S.VERIFYING, _E.NODE_DELETED): (_S.VERIFYING, (_A.READ,)),
    (_S.VERIFYING, _E.MINE): (_S.HELD, ()),
    (_S.VERIFYING, _E.GONE): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.VERIFYING, _E.OTHER): (_S.LOST, (_A.NOTIFY_LOST,)),
    (_S.VERIFYING, _E.SESSION_ENDED): (_S.LOST, ()),
    (_S.VERIFYING, _E.RELEASE): (_S.RELEASING, (_A.DELETE,)),
    # While the delete is on its way only its own answer counts: a read may show the node
    # before or after it.
    **{
        (_S.RELEASING, event): (_S.RELEASING, ())
        for event in (
            _E.SUSPENDED,
            _E.RECONNECTED,
            _E.NODE_DELETED,
            _E.MINE,
            _E.GONE,
            _E.OTHER,
        )
    },
    (_S.RELEASING, _E.SESSION_ENDED): (_S.RELEASED, ()),
    (_S.RELEASING, _E.DONE): (_S.RELEASED, ()),
    # An old epoch, for example. The node was not read meanwhile, hence the read.
    (_S.RELEASING, _E.REFUSED): (_S.VERIFYING, (_A.READ,)),
    # The caller was cancelled before the answer.
    (_S.RELEASING, _E.RELEASE): (_S.RELEASING, (_A.DELETE,)),
    # A generation that has ended gets no events any more, and has nothing left to release.
    **{(ended, event): (ended, ()) for ended in (_S.LOST, _S.RELEASED) for event in _E},
}

step: Final = StateMachine("lock", TRANSITIONS).step


@dataclass(frozen=True, slots=True)
class LockIdentity:
    """The generation of a node that a right depends on."""

    czxid: int
    session_id: int


class Claim(Enum):
    """Owner of the node at the path where we want to create ours."""

    MINE = auto()
    MY_EARLIER_SESSION = auto()
    OTHERS = auto()
    NOT_EPHEMERAL = auto()


def claim_of(
    *,
    owner_session: int,
    is_ephemeral: bool,
    owner_broker: str | None,
    session_id: int,
    broker_id: str,
) -> Claim:
    """Classify a node: only the session proves that it is ours (docs: curator-leader-latch)."""
    if not is_ephemeral:
        return Claim.NOT_EPHEMERAL
    if owner_session == session_id:
        return Claim.MINE
    return Claim.MY_EARLIER_SESSION if owner_broker == broker_id else Claim.OTHERS
