"""Brokers that were lost, in the store: a leader knows of losses that only an earlier one has seen.

A broker is lost if its registration went without a stop or a drain. It is forgotten when it is
back, when an operator drains it, and after a day.
"""

import logging
from collections.abc import Mapping
from typing import Final

from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor
from broker_ctl.balancer.planning.directive_writes import write_directives
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, SetData
from broker_ctl.store.records.broker_ctl import MOST_LOST, LostRecord

log = logging.getLogger(__name__)

_KEPT_MS: Final = 24 * 3_600_000


class LostBrokers:
    """Those of one term, which alone writes the node."""

    def __init__(self, term: LeaderTerm, absence_monitor: AbsenceMonitor) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._absence_monitor = absence_monitor
        self._stored: Mapping[str, int] = {}
        # Of the node: None before it was read, -1 where it does not exist.
        self._version: int | None = None

    def since_ms(self) -> Mapping[str, int]:
        """When each was missed first, in ms since 1970."""
        now_ms = self._dependencies.clock.wall_ms()
        back = (
            self._dependencies.registry.peers.keys() | self._dependencies.directives.drains.keys()
        )
        seen = {**dict.fromkeys(self._absence_monitor.lost(), now_ms), **self._stored}
        lost = {
            broker: at_ms
            for broker, at_ms in seen.items()
            if broker not in back and now_ms - at_ms < _KEPT_MS
        }
        newest = sorted(lost, key=lambda each: (-lost[each], each))[:MOST_LOST]
        return {broker: lost[broker] for broker in sorted(newest)}

    async def advance(self, *, is_dry_run: bool) -> None:
        """Read what earlier leaders have seen, and write what has changed.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: the node could not be read, or not be written.
        """
        if self._version is None:
            await self._read()
        wanted = self.since_ms()
        if wanted == self._stored or is_dry_run:
            return
        await self._term.leadership.wait_deciding()
        data, version = LostRecord(wanted).encode(), self._version
        # Whatever comes of it, what stands then is read again, and judged by the next cycle.
        self._version = None
        change = (
            Create(paths.LOST, data) if version == -1 else SetData(paths.LOST, data, version or 0)
        )
        await write_directives(self._term, change)
        for broker in wanted.keys() - self._stored.keys():
            log.warning("%s is lost: it left without a stop or a drain", broker)

    async def _read(self) -> None:
        node = await self._dependencies.store.get(paths.LOST)
        stored: Mapping[str, int] = {}
        if node is not None:
            try:
                stored = LostRecord.decode(node.path, node.data).since_ms
            except CorruptRecord as error:
                log.warning("skipped the list of lost brokers: %s", error)
            except NewerVersion as error:
                log.warning("the list of lost brokers is left alone: %s", error)
                raise
        self._stored, self._version = stored, -1 if node is None else node.stat.version
