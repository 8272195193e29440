"""The state machine of one broker of a rollout.

The leader drains and checks, the driver restarts: the states say who waits for whom.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.machines.table import StateMachine


class BrokerRolloutState(StrEnum):
    """State of a broker in a rollout.

    WAITING     its turn has not come
    DRAINING    its bundles leave
    EMPTY       the driver is to restart it
    RESTARTING  the driver has begun to
    CHECKING    the driver says that it has restarted; the gates are not all open
    DONE        it may receive bundles
    FAILED      a step failed; it is retried after a resume
    """

    WAITING = "waiting"
    DRAINING = "draining"
    EMPTY = "empty"
    RESTARTING = "restarting"
    CHECKING = "checking"
    DONE = "done"
    FAILED = "failed"


class BrokerRolloutEvent(StrEnum):
    """What happens to a broker. RESTARTED: the driver says so, or another run has registered."""

    BEGIN = "begin"
    EMPTIED = "emptied"
    RESTART_BEGAN = "restart began"
    RESTARTED = "restarted"
    PASSED = "passed"
    FAIL = "fail"
    RETRY = "retry"


_S, _E = BrokerRolloutState, BrokerRolloutEvent

TRANSITIONS: Final[Mapping[tuple[BrokerRolloutState, BrokerRolloutEvent], BrokerRolloutState]] = {
    (_S.WAITING, _E.BEGIN): _S.DRAINING,
    (_S.DRAINING, _E.EMPTIED): _S.EMPTY,
    (_S.DRAINING, _E.FAIL): _S.FAILED,
    (_S.EMPTY, _E.RESTART_BEGAN): _S.RESTARTING,
    (_S.EMPTY, _E.FAIL): _S.FAILED,
    # The command takes long; or another driver continues, and cannot know whether it was run.
    (_S.RESTARTING, _E.RESTART_BEGAN): _S.RESTARTING,
    (_S.RESTARTING, _E.RESTARTED): _S.CHECKING,
    (_S.RESTARTING, _E.FAIL): _S.FAILED,
    (_S.CHECKING, _E.PASSED): _S.DONE,
    (_S.CHECKING, _E.FAIL): _S.FAILED,
    (_S.FAILED, _E.RETRY): _S.DRAINING,
}
# In these a broker receives nothing.
DRAINED: Final = frozenset({_S.DRAINING, _S.EMPTY, _S.RESTARTING, _S.CHECKING})

step: Final = StateMachine("broker of a rollout", TRANSITIONS).step
