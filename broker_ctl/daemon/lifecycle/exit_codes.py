"""Exit codes of the daemon (those of sysexits.h that fit). The service unit lists them."""

from typing import Final

from broker_ctl.errors import AuthFailed, HistoryBehind, RetriesUsedUp, StoreError

# Stopped on request.
STOPPED: Final = 0
# Refused to start, or ended by an error, which is in the log.
FAILED: Final = 1
# ZooKeeper was restored from a copy: an operator must check before any daemon starts.
HISTORY_BEHIND: Final = 65
# zookeeperSessionReconnectMaxRetries is used up: an immediate restart would not help.
RETRIES_USED_UP: Final = 69
# zookeeperSessionExpiredPolicy=shutdown.
SESSION_LOST: Final = 70
# A ZooKeeper server is too old for a required request, or its watches do not name what changed.
TOO_OLD: Final = 76
# ZooKeeper refuses our credentials: starting again would not help.
NOT_ADMITTED: Final = 77


def of(ended: StoreError) -> int:
    """The exit code for the error that ended the store."""
    match ended:
        case HistoryBehind():
            return HISTORY_BEHIND
        case RetriesUsedUp():
            return RETRIES_USED_UP
        case AuthFailed():
            return NOT_ADMITTED
        case _:
            return FAILED
