"""The leader removes members that have been gone for long (docs: failsafe).

While a member is gone, no broker can serve on by promises, and a new one may acquire no bundles.
One that waits to be admitted is not registered yet; its heartbeats show that it lives.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.failsafe.membership import Membership
from broker_ctl.errors import NotAdmitted, OrderConflict, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Absence:
    """Since when, and the last heartbeat seen (its zxid; 0: none)."""

    since_s: float
    beat_zxid: int


class Absences:
    """Counts only what this broker has seen as the leader, without an interruption.

    ``registered`` are the live brokers; ``leads`` whether this broker is the leader.
    """

    def __init__(
        self,
        store: MetadataStore,
        membership: Membership,
        *,
        registered: Callable[[], Collection[str]],
        leads: Callable[[], bool],
        clock: Clock,
        limit_s: float,
    ) -> None:
        self._store = store
        self._membership = membership
        self._registered = registered
        self._leads = leads
        self._clock = clock
        self._limit_s = limit_s
        self._absent: dict[str, _Absence] = {}
        self._tasks = TaskScope("absent members")

    def start(self) -> None:
        """Begin to look."""
        self._tasks.keep(self._run(), "absences")

    async def close(self) -> None:
        """Stop."""
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self._look()
            except (StoreError, NotAdmitted, OrderConflict) as error:
                log.info("cannot remove members yet: %s", error)

    async def _look(self) -> None:
        members = self._membership.members
        if members is None or not self._leads():
            self._absent.clear()
            return
        absent = sorted(members.added.keys() - set(self._registered()))
        beats = await self._beats(absent)
        # The read took time: this broker may have ceased to lead, or others may have registered.
        now_s, registered = self._clock.now_s(), set(self._registered())
        self._absent = {
            name: self._observe(name, beats[name], now_s)
            for name in absent
            if name not in registered and self._leads()
        }
        gone = [
            name
            for name, absence in self._absent.items()
            if now_s - absence.since_s >= self._limit_s
        ]
        if gone:
            await self._membership.remove(gone)

    async def _beats(self, names: Sequence[str]) -> dict[str, int]:
        nodes = await self._store.get_many([paths.lease(name) for name in names])
        return {
            name: 0 if node is None else node.stat.mzxid
            for name, node in zip(names, nodes, strict=True)
        }

    def _observe(self, name: str, beat_zxid: int, now_s: float) -> _Absence:
        known = self._absent.get(name)
        if known is None or known.beat_zxid != beat_zxid:
            return _Absence(now_s, beat_zxid)
        return known
