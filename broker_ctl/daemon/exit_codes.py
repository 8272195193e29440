"""How the process ends (sysexits.h where a code fits). The service unit knows them."""

from typing import Final

from broker_ctl.errors import HistoryBehind, RetriesUsedUp

STOPPED: Final = 0
FAILED: Final = 1
# ZooKeeper was restored from a copy: nobody may start before an operator has looked.
HISTORY_BEHIND: Final = 65
# zookeeperSessionReconnectMaxRetries used up: starting again at once would not help.
RETRIES_USED_UP: Final = 69
# zookeeperSessionExpiredPolicy=shutdown.
SESSION_LOST: Final = 70


def reason_of(ended: BaseException) -> BaseException:
    """The first error of a group, however deep."""
    while isinstance(ended, BaseExceptionGroup):
        ended = ended.exceptions[0]
    return ended


def of(ended: BaseException) -> int:
    """The code for what ended the session with ZooKeeper for good."""
    match reason_of(ended):
        case HistoryBehind():
            return HISTORY_BEHIND
        case RetriesUsedUp():
            return RETRIES_USED_UP
        case _:
            return FAILED
