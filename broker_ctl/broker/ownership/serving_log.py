"""Log lines for the loss of the session: what operators look for first after a ZooKeeper outage."""

import logging
import math
from collections.abc import Callable, Sized

from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import Action

log = logging.getLogger(__name__)


class ServingLog:
    """Logs when this broker stops and resumes serving.

    Args:
        owned: returns the bundles held now.
    """

    def __init__(self, watcher: SessionWatcher, owned: Callable[[], Sized]) -> None:
        self._watcher = watcher
        self._owned = owned
        self._has_ended = False

    def on_session_action(self, action: Action) -> None:
        """See `SessionWatcher.listen`."""
        if action is Action.SESSION_LOST:
            self._lost()
        elif action is Action.SESSION_REESTABLISHED and self._has_ended:
            self._has_ended = False
            log.warning(
                "the session is back: acquiring %d bundles again, as far as no other broker has "
                "them",
                len(self._owned()),
            )

    def _lost(self) -> None:
        bundles, session = len(self._owned()), self._watcher.epoch
        if withheld := self._watcher.withheld:
            self._has_ended = True
            log.warning("%d bundles are not served: %s", bundles, withheld)
            return
        if self._watcher.deadline_s == math.inf:
            log.warning(
                "session %d is lost: %d bundles stay served, since with ownershipAuthority=storage "
                "the storage rejects stale owners",
                session,
                bundles,
            )
            return
        self._has_ended = True
        log.warning(
            "session %d is lost and the lease has ended: %d bundles are not served until "
            "ZooKeeper answers again",
            session,
            bundles,
        )
