"""Whether zookeeperTickTimeMillis is what the servers have.

A client cannot read tickTime; but a server grants no session less than its minSessionTimeout,
which is two ticks unless it is set. The lease, its heartbeats, and how long the nodes of a dead
session are waited for, are computed with the tick: a longer one than is known makes all of them
too short.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from broker_ctl.errors import StartError
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.session import OwnershipAuthority

log = logging.getLogger(__name__)

_TICKS: Final = 2


class Granting(Protocol):
    """A store whose servers can be asked."""

    async def least_timeouts_s(self) -> Sequence[float]:
        """What each server that answers grants a session at least."""
        ...


class TickCheck:
    """Compares at the start."""

    def __init__(self, settings: Settings) -> None:
        zookeeper = settings.zookeeper
        self._tick_ms = zookeeper.tick_time_ms
        self._expected_ms = zookeeper.min_session_timeout_ms or _TICKS * self._tick_ms
        self._is_leased = settings.session.ownership_authority is OwnershipAuthority.LEASE

    async def compare(self, store: Granting) -> None:
        """Ask the servers.

        Raises:
            StartError: one has a longer tick, as it seems, and a lease is computed with it.
        """
        for least_s in sorted(set(await store.least_timeouts_s()), reverse=True):
            least_ms = round(least_s * 1000)
            if least_ms == self._expected_ms:
                continue
            reason = (
                f"a ZooKeeper server grants no session less than {least_ms} ms, and it should be "
                f"{self._expected_ms} ms with zookeeperTickTimeMillis={self._tick_ms}: set that to "
                f"the servers' tickTime ({least_ms // _TICKS}, unless minSessionTimeout is set "
                "there), or zookeeperMinSessionTimeoutMillis to their minSessionTimeout"
            )
            if least_ms > self._expected_ms and self._is_leased:
                raise StartError(reason)
            log.warning("%s", reason)
