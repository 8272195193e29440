"""Checks zookeeperTickTimeMillis against the servers.

A client cannot read tickTime; but a server grants at least its minSessionTimeout, which defaults to
two ticks. The lease, its heartbeats, and the limit for nodes of dead sessions are computed from the
tick: if the servers' tick is longer than configured, all of them are too short.
"""

import logging
from collections.abc import Iterable
from typing import Final

from broker_ctl.errors import StartError
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.session import OwnershipAuthority

log = logging.getLogger(__name__)

_TICKS: Final = 2


class TickCheck:
    """Compares the tick at the start."""

    def __init__(self, settings: Settings) -> None:
        zookeeper = settings.zookeeper
        self._tick_ms = zookeeper.tick_time_ms
        self._expected_ms = zookeeper.min_session_timeout_ms or _TICKS * self._tick_ms
        self._is_leased = settings.session.ownership_authority is OwnershipAuthority.LEASE

    def compare(self, least_timeouts_s: Iterable[float]) -> None:
        """Compare with the servers' minimum session timeouts.

        Raises:
            StartError: a server seems to have a longer tick, and the lease depends on it.
        """
        for least_s in sorted(set(least_timeouts_s), reverse=True):
            least_ms = round(least_s * 1000)
            if least_ms == self._expected_ms:
                continue
            reason = (
                f"a ZooKeeper server grants at least {least_ms} ms to a session, but "
                f"{self._expected_ms} ms are expected with zookeeperTickTimeMillis={self._tick_ms}:"
                f" set that to the servers' tickTime ({least_ms // _TICKS}, unless "
                "minSessionTimeout is set there), or zookeeperMinSessionTimeoutMillis to their "
                "minSessionTimeout"
            )
            if least_ms > self._expected_ms and self._is_leased:
                raise StartError(reason)
            log.warning("%s", reason)
