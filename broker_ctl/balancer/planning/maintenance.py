"""Begins scheduled drains at their time, and ends drains that are over.

A window waits in a node of its own until its time: only the leader judges the time, so brokers
whose clocks differ agree on who is drained. All its writes carry the leader's epoch.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from broker_ctl.balancer.planning.directive_writes import write_directives
from broker_ctl.balancer.planning.drain_admission import DrainAdmission
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import MaintenanceWindow
from broker_ctl.core.cluster.draining import DrainState, end_of_drain
from broker_ctl.errors import CorruptRecord, NewerVersion, NodeExists, OrderConflict
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete
from broker_ctl.store.records.directives import DrainRecord

log = logging.getLogger(__name__)

# Pause before a drain is tried again that could not begin.
_RETRY_S: Final = 10.0
_MS: Final = 1000


class Maintenance:
    """The scheduled drains of one term, and the ends of all drains."""

    def __init__(self, term: LeaderTerm, admission: DrainAdmission) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._directives = term.dependencies.directives
        self._admission = admission
        self._retry_s = -math.inf
        # Why a drain whose time has come has not begun, by broker id.
        self._obstacles: dict[str, str] = {}

    @property
    def due_s(self) -> float:
        """When something is to be done next; infinity: nothing is scheduled."""
        if any(True for _ in self._over()):
            return -math.inf
        clock = self._dependencies.clock
        wall_ms, now_s = clock.wall_ms(), clock.now_s()
        begins = [max(wall_ms, each.terms.begins_ms) for each in self._directives.windows.values()]
        ends = [each.ends_ms for each in self._directives.drains.values() if each.ends_ms]
        begin_s = max(self._retry_s, now_s + (min(begins, default=math.inf) - wall_ms) / _MS)
        return min(begin_s, now_s + (min(ends, default=math.inf) - wall_ms) / _MS)

    async def advance(self) -> None:
        """Begin and end what is due.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: a node could not be read, or not be written.
        """
        if self.due_s > self._dependencies.clock.now_s():
            return
        await self._term.leadership.wait_deciding()
        for broker_id, why in list(self._over()):
            await self._end(broker_id, why)
        self._obstacles = {
            each: why for each, why in self._obstacles.items() if each in self._directives.windows
        }
        wall_ms = self._dependencies.clock.wall_ms()
        for broker_id, window in sorted(self._directives.windows.items()):
            if window.terms.begins_ms <= wall_ms:
                self._retry_s = self._dependencies.clock.now_s() + _RETRY_S
                await self._begin(broker_id, window)

    def rows(self) -> list[dict[str, Any]]:
        """The drains that have not begun, as plain JSON values."""
        windows = sorted(self._directives.windows.items())
        return [self.row(broker_id, window) for broker_id, window in windows]

    def row(self, broker_id: str, window: MaintenanceWindow) -> dict[str, Any]:
        """One scheduled drain, as plain JSON values."""
        return {
            "broker": broker_id,
            **window.order.to_row(),
            "state": DrainState.SCHEDULED.value,
            "begins_ms": window.terms.begins_ms,
            "ends_ms": window.terms.ends_ms or None,
            "until_restart": window.terms.until_restart,
            "obstacle": self._obstacles.get(broker_id, ""),
        }

    def _over(self) -> Iterator[tuple[str, str]]:
        wall_ms = self._dependencies.clock.wall_ms()
        for broker_id, drain in self._directives.drains.items():
            peer = self._dependencies.registry.peer(broker_id)
            if why := end_of_drain(drain, None if peer is None else peer.run, wall_ms):
                yield broker_id, why

    async def _begin(self, broker_id: str, window: MaintenanceWindow) -> None:
        if 0 < window.terms.ends_ms <= self._dependencies.clock.wall_ms():
            log.warning("the drain of %s never began: its time is over", broker_id)
            await write_directives(self._term, Delete(paths.maintenance_window(broker_id)))
            return
        if broker_id not in self._directives.drains and not await self._is_admitted(
            broker_id, window
        ):
            return
        # A drain that an operator began meanwhile stays as it is.
        create = []
        if broker_id not in self._directives.drains:
            drain = self._admission.drain(broker_id, window.order, window.terms)
            create = [Create(paths.drain(broker_id), DrainRecord(drain).encode())]
            await self._make_parent()
        if await write_directives(self._term, *create, Delete(paths.maintenance_window(broker_id))):
            log.info("the scheduled drain of %s begins%s", broker_id, window.order.suffix)

    async def _is_admitted(self, broker_id: str, window: MaintenanceWindow) -> bool:
        try:
            await self._admission.check(broker_id, window.terms)
        except OrderConflict as error:
            if self._obstacles.get(broker_id) != str(error):
                log.warning("the scheduled drain of %s cannot begin: %s", broker_id, error)
            self._obstacles[broker_id] = str(error)
            return False
        return True

    async def _end(self, broker_id: str, why: str) -> None:
        """Delete a drain; one that was given again meanwhile stays."""
        path = paths.drain(broker_id)
        node = await self._dependencies.store.get(path)
        if node is None:
            return
        try:
            drain = DrainRecord.decode(node.path, node.data).drain
        except (CorruptRecord, NewerVersion):
            return
        if drain == self._directives.drains.get(broker_id) and await write_directives(
            self._term, Delete(path, node.stat.version)
        ):
            log.info("the drain of %s ends: %s", broker_id, why)

    async def _make_parent(self) -> None:
        if await self._dependencies.store.exists(paths.DRAINS) is None:
            with suppress(NodeExists):
                await self._dependencies.store.create(paths.DRAINS, make_parents=True)
