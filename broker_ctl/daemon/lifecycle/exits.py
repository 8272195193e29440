"""Why a daemon ends by its own decision, and with which exit code."""

import asyncio
import logging
from functools import partial
from typing import Final

from broker_ctl.core.machines.session import SessionAction
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.errors import AuthFailed, HistoryBehind, RetriesUsedUp, StoreClosed, StoreError
from broker_ctl.settings.subjects.session import SessionExpiredPolicy
from broker_ctl.store.interface import SessionEvent

log = logging.getLogger(__name__)

# Exit codes of the daemon (those of sysexits.h that fit). The service unit lists them.


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


# Reasons for a daemon to end by its own decision, with their exit codes.


class OwnEnd:
    """The daemon's own decision to end; the first one counts.

    Attributes:
        decided: set once the decision is taken.
        code: exit code of the process.
        is_stopping: whether the daemon is stopping for any reason; later events of its stores are
            ignored.
    """

    def __init__(self, base: Foundation) -> None:
        self._base = base
        self.decided = asyncio.Event()
        self.code = STOPPED
        self.is_stopping = False

    def watch(self) -> None:
        """Listen to the session, and to both stores, which may give up by themselves."""
        base = self._base
        base.watcher.listen(self._on_session_action)
        base.store.listen(partial(self._on_store_event, base.store))
        if base.configuration_store is not base.store:
            base.configuration_store.listen(partial(self._on_store_event, base.configuration_store))

    def end_for(self, why: HistoryBehind) -> None:
        """End although no store has ended: the history of ZooKeeper is behind."""
        self._decide(of(why), str(why))

    def _on_session_action(self, action: SessionAction) -> None:
        policy = self._base.settings.session.expired_policy
        if action is SessionAction.SESSION_LOST and policy is SessionExpiredPolicy.SHUTDOWN:
            why = "the session is lost, and zookeeperSessionExpiredPolicy is shutdown"
            self._decide(SESSION_LOST, why)

    def _on_store_event(self, store: OwnStore, event: SessionEvent) -> None:
        why = store.ended_by
        # A store that was closed did not give up: its closer knows the reason.
        if event is SessionEvent.CLOSED and not isinstance(why, StoreClosed | None):
            self._decide(of(why), f"{store.name} has ended: {_describe(why)}")

    def _decide(self, code: int, why: str) -> None:
        if self.is_stopping or self.decided.is_set():
            return
        log.error("%s", why)
        self.code = code
        self.decided.set()


def _describe(why: StoreError) -> str:
    if isinstance(why, RetriesUsedUp):
        return f"zookeeperSessionReconnectMaxRetries are used up: {why}"
    if isinstance(why, AuthFailed):
        return f"ZooKeeper refuses our credentials, see zookeeperSaslDigestFile: {why}"
    return str(why)
