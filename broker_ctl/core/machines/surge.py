"""One surge: a bundle or a tenant whose traffic has grown many times within a minute.

It makes the leader plan at once, instead of at the end of the interval, and soon again while it is
followed: a bundle that was split must still be moved. After that the regular cycles suffice.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class SurgeState(StrEnum):
    """State of the surge.

    RISEN      a report shows it, and no plan has considered it
    FOLLOWED   a plan has considered it; the next ones follow at short intervals
    OVER       the regular cycles take care of the rest
    """

    RISEN = "risen"
    FOLLOWED = "followed"
    OVER = "over"


class SurgeEvent(StrEnum):
    """What happens to it.

    GREW (tenfold again), PLANNED (a cycle has planned on a view with it), FELL (to less than half)
    and LAPSED (it has been followed for long enough).
    """

    GREW = "grew"
    PLANNED = "planned"
    FELL = "fell"
    LAPSED = "lapsed"


_S, _E = SurgeState, SurgeEvent

TRANSITIONS: Final[Mapping[tuple[SurgeState, SurgeEvent], SurgeState]] = {
    (_S.RISEN, _E.GREW): _S.RISEN,
    (_S.RISEN, _E.PLANNED): _S.FOLLOWED,
    (_S.RISEN, _E.FELL): _S.OVER,
    # No cycle has planned for a window: a paused or cut-off leader does not pile surges up.
    (_S.RISEN, _E.LAPSED): _S.OVER,
    (_S.FOLLOWED, _E.GREW): _S.RISEN,
    # Each plan of the interval in which it is followed considers it.
    (_S.FOLLOWED, _E.PLANNED): _S.FOLLOWED,
    (_S.FOLLOWED, _E.FELL): _S.OVER,
    (_S.FOLLOWED, _E.LAPSED): _S.OVER,
}

step: Final = StateMachine("surge", TRANSITIONS).step
