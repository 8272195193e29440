"""After an expiry: take again what was owned, from memory (PIP-57; design: I7).

The data plane keeps the topics, and has no authority meanwhile. Every bundle is renewed under its
new token, or fenced where somebody else got it, before authority is granted for the new session:
so nothing ever acts under a token of a session that has ended.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.ownership import BundleState
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.errors import BrokerCtlError, DataPlaneRefused
from broker_ctl.managers.acquire import Acquirer
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.release import Releaser

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = 128


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What came of one expiry."""

    kept: int
    lost: int


class Reclaim:
    """Runs once at the start of each session, before the broker registers."""

    def __init__(
        self,
        *,
        holdings: Holdings,
        acquirer: Acquirer,
        releaser: Releaser,
        dataplane: DataPlane,
    ) -> None:
        self._holdings = holdings
        self._acquirer = acquirer
        self._releaser = releaser
        self._dataplane = dataplane
        self.last = Reclaimed(0, 0)

    async def run(self, epoch: int) -> Reclaimed:
        """Take all again that is RECLAIMING; bounded requests in flight."""
        waiting = iter(self._holdings.in_state(BundleState.RECLAIMING))
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(waiting, epoch), name=f"reclaim {number}")
                for number in range(_IN_FLIGHT)
            ]
        kept = sum(worker.result() for worker in workers)
        total = len(self._holdings.held)
        self.last = Reclaimed(kept, total - kept)
        for held in self._holdings.in_state(BundleState.RECLAIMING):
            self._holdings.drop(held)
        if total:
            log.info("session %d: kept %d of %d bundles", epoch, kept, total)
        return self.last

    async def _work(self, waiting: Iterable[OwnedBundle], epoch: int) -> int:
        kept = 0
        for held in waiting:
            try:
                await self._take_again(held, epoch)
                kept += 1
            except BrokerCtlError as error:
                log.warning("%s is not ours any more: %s", held.bundle, error)
                await self._releaser.fence(held.bundle)
                if held.lock is not None:
                    await self._releaser.give_back(held.lock)
                    held.lock = None
        return kept

    async def _take_again(self, held: OwnedBundle, epoch: int) -> None:
        lock = await self._acquirer.lock(held.bundle, (), epoch)
        held.lock = lock
        try:
            await self._dataplane.renew(held.bundle, lock.token)
        except DataPlaneRefused:
            # It has lost the bundle meanwhile: its topics are loaded anew.
            await self._dataplane.load(held.bundle, lock.token)
        held.advance(BundleState.OWNED)
