"""The end of serving in the log: what an operator looks for first after an outage of ZooKeeper."""

import logging
import math
from collections.abc import Callable, Sized

from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import Action

log = logging.getLogger(__name__)


class ServingLog:
    """Hears the session of this broker.

    Args:
        owned: the bundles that are held, as of now.
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
            log.warning("the session is back: %d bundles may be served again", len(self._owned()))

    def _lost(self) -> None:
        bundles, session = len(self._owned()), self._watcher.epoch
        if self._watcher.deadline_s == math.inf:
            log.warning(
                "session %d is lost: %d bundles are served on, since ownershipAuthority=storage "
                "leaves it to the storage to refuse old owners",
                session,
                bundles,
            )
            return
        self._has_ended = True
        log.warning(
            "session %d is lost and the lease has ended: %d bundles are not served any more, until "
            "ZooKeeper answers again",
            session,
            bundles,
        )
