"""How the process ends (sysexits.h where a code fits). The service unit knows them."""

from typing import Final

from broker_ctl.errors import AuthFailed, HistoryBehind, RetriesUsedUp, StoreError

# Stopped as asked.
STOPPED: Final = 0
# Refused to start, or ended by an error; the log says which.
FAILED: Final = 1
# ZooKeeper was restored from a copy: no daemon may start before an operator has looked.
HISTORY_BEHIND: Final = 65
# zookeeperSessionReconnectMaxRetries used up: starting again at once would not help.
RETRIES_USED_UP: Final = 69
# zookeeperSessionExpiredPolicy=shutdown.
SESSION_LOST: Final = 70
# A ZooKeeper server is too old for what is asked of it.
TOO_OLD: Final = 76
# ZooKeeper refuses our credentials: starting again would not help.
NOT_ADMITTED: Final = 77


def of(ended: StoreError) -> int:
    """The code for what ended the session with ZooKeeper for good."""
    match ended:
        case HistoryBehind():
            return HISTORY_BEHIND
        case RetriesUsedUp():
            return RETRIES_USED_UP
        case AuthFailed():
            return NOT_ADMITTED
        case _:
            return FAILED
