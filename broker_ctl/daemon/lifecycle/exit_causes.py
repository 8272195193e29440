"""Why a daemon ends although nobody asked it to, and with which exit code."""

import asyncio
import logging
from functools import partial

from broker_ctl.core.machines.session import Action
from broker_ctl.daemon.lifecycle import exit_codes
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.errors import AuthFailed, HistoryBehind, RetriesUsedUp, StoreClosed, StoreError
from broker_ctl.settings.subjects.session import SessionExpiredPolicy
from broker_ctl.store.interface import SessionEvent

log = logging.getLogger(__name__)


class OwnEnd:
    """The daemon's own decision to end; the first one counts.

    Attributes:
        decided: set once it is taken.
        code: with which the process ends.
        is_stopping: whether the daemon is on its way down, for whatever reason; what its stores do
            from then on is no decision any more.
    """

    def __init__(self, base: Foundation) -> None:
        self._base = base
        self.decided = asyncio.Event()
        self.code = exit_codes.STOPPED
        self.is_stopping = False

    def watch(self) -> None:
        """Hear of the session, and of either store that gives up by itself."""
        base = self._base
        base.watcher.listen(self._session_changed)
        base.store.listen(partial(self._store_changed, base.store))
        if base.configuration_store is not base.store:
            base.configuration_store.listen(partial(self._store_changed, base.configuration_store))

    def end_by(self, why: HistoryBehind) -> None:
        """No store has ended, and the daemon cannot go on."""
        self._decide(exit_codes.of(why), str(why))

    def _session_changed(self, action: Action) -> None:
        policy = self._base.settings.session.expired_policy
        if action is Action.SESSION_LOST and policy is SessionExpiredPolicy.SHUTDOWN:
            why = "the session is lost, and zookeeperSessionExpiredPolicy is shutdown"
            self._decide(exit_codes.SESSION_LOST, why)

    def _store_changed(self, store: OwnStore, event: SessionEvent) -> None:
        why = store.ended_by
        # One that was closed did not give up: whoever closes it knows why.
        if event is SessionEvent.CLOSED and not isinstance(why, StoreClosed | None):
            self._decide(exit_codes.of(why), f"{store.name} has ended: {_sentence_of(why)}")

    def _decide(self, code: int, why: str) -> None:
        if self.is_stopping or self.decided.is_set():
            return
        log.error("%s", why)
        self.code = code
        self.decided.set()


def _sentence_of(why: StoreError) -> str:
    if isinstance(why, RetriesUsedUp):
        return f"zookeeperSessionReconnectMaxRetries are used up: {why}"
    if isinstance(why, AuthFailed):
        return f"ZooKeeper refuses our credentials, see zookeeperAuthDigestFile: {why}"
    return str(why)
