"""The state machine of a rollout; `broker_machine` has that of each broker in it.

What is the cluster's (pause, drain, moves, gates) is done by the leader. What is a machine's, the
restart, is done by a driver, which an operator runs: a daemon runs nobody's commands. The states
say who waits for whom, so any leader and any driver can continue.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class RolloutState(StrEnum):
    """State of a rollout.

    RUNNING    one batch after the other is drained and restarted
    PAUSED     the batch in progress ends, no other begins
    STOPPED    a gate did not open; balancing goes on until an operator decides
    SETTLING   all brokers have restarted, and the last ones get bundles back
    DONE       everything is as before
    ABORTING   by an operator; what the rollout has changed is being restored
    ABORTED    everything is as before, some brokers have not restarted
    """

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    SETTLING = "settling"
    DONE = "done"
    ABORTING = "aborting"
    ABORTED = "aborted"


class RolloutEvent(StrEnum):
    """What happens to a rollout."""

    PAUSE = "pause"
    RESUME = "resume"
    FAIL = "fail"
    RESTARTED = "all restarted"
    SETTLED = "settled"
    ABORT = "abort"
    RESTORED = "restored"


_S, _E = RolloutState, RolloutEvent

TRANSITIONS: Final[Mapping[tuple[RolloutState, RolloutEvent], RolloutState]] = {
    (_S.RUNNING, _E.PAUSE): _S.PAUSED,
    (_S.RUNNING, _E.FAIL): _S.STOPPED,
    (_S.RUNNING, _E.RESTARTED): _S.SETTLING,
    (_S.RUNNING, _E.ABORT): _S.ABORTING,
    (_S.PAUSED, _E.RESUME): _S.RUNNING,
    # The batch in progress goes on.
    (_S.PAUSED, _E.FAIL): _S.STOPPED,
    (_S.PAUSED, _E.ABORT): _S.ABORTING,
    (_S.STOPPED, _E.RESUME): _S.RUNNING,
    (_S.STOPPED, _E.ABORT): _S.ABORTING,
    (_S.SETTLING, _E.SETTLED): _S.DONE,
    (_S.SETTLING, _E.ABORT): _S.ABORTING,
    (_S.ABORTING, _E.RESTORED): _S.ABORTED,
}
# In these the rollout holds its pause and its drains.
HOLDING: Final = frozenset({_S.RUNNING, _S.PAUSED, _S.SETTLING})
# In these it has ended: another may begin.
ENDED: Final = frozenset({_S.DONE, _S.ABORTED})

step: Final = StateMachine("rollout", TRANSITIONS).step
