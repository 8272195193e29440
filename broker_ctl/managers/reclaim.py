"""After an expiry: take again what was owned, from memory (PIP-57; design: I7).

The data plane keeps the topics, and has no authority meanwhile. Every bundle is renewed under its
new token, or fenced where somebody else got it, before authority is granted for the new session:
so nothing ever acts under a token of a session that has ended.

A daemon that was started anew has no memory. What its data plane still serves, and what stands in
the store from a session that was taken up again (`stopMode=keep`), is taken again in the same way.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.ownership import BundleState
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.errors import (
    BrokerCtlError,
    BundleMoving,
    DataPlaneError,
    DataPlaneRefused,
    StoreError,
)
from broker_ctl.managers.acquire import Acquirer
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.release import Releaser
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = 128
_ATTEMPTS: Final = 5
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What came of one expiry."""

    kept: int
    lost: int


class Reclaim:
    """Runs at the start of each session, before the broker registers. Nothing else acts then."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        holdings: Holdings,
        watcher: SessionWatcher,
        acquirer: Acquirer,
        releaser: Releaser,
        dataplane: DataPlane,
    ) -> None:
        self._store = store
        self._holdings = holdings
        self._watcher = watcher
        self._acquirer = acquirer
        self._releaser = releaser
        self._dataplane = dataplane
        self.last = Reclaimed(0, 0)

    async def run(self, epoch: int) -> Reclaimed:
        """Take all again that is RECLAIMING; bounded requests in flight.

        Returns once nothing is loaded any more but under the tokens of this session.
        """
        self._remember(await self._left_in_store())
        self._remember(await self._loaded())
        lost_before = self._holdings.in_state(BundleState.RECLAIMING)
        waiting = iter(lost_before)
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(waiting, epoch), name=f"reclaim {number}")
                for number in range(min(_IN_FLIGHT, len(lost_before)))
            ]
        kept = sum(worker.result() for worker in workers)
        self.last = Reclaimed(kept, len(lost_before) - kept)
        for held in self._holdings.in_state(BundleState.RECLAIMING):
            self._holdings.drop(held)
        await self._fence_strangers()
        if lost_before:
            log.info("session %d: kept %d of %d bundles", epoch, kept, len(lost_before))
        return self.last

    # What there was.

    async def _left_in_store(self) -> list[Bundle]:
        """Own nodes of this very session, which an earlier process has left."""
        while True:
            try:
                found = map(paths.owned_bundle, await self._store.ephemerals(paths.OWNERSHIP))
            except StoreError as error:
                if not error.can_retry:
                    raise
                log.info("what stands in the store? %s; asking again", error)
                await asyncio.sleep(_RETRY_S)
            else:
                return [bundle for bundle in found if bundle is not None]

    async def _loaded(self) -> dict[Bundle, int]:
        """What the data plane serves; waits for its answer, without which nothing is known."""
        while True:
            try:
                return dict(await self._dataplane.loaded())
            except DataPlaneError as error:
                log.warning("what is loaded? %s; asking again", error)
                await asyncio.sleep(_RETRY_S)

    def _remember(self, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            # A split that was cut off may have left a parent loaded whose children are held: it
            # goes when they are loaded in its place.
            if not any(self._holdings.overlapping(bundle)):
                self._holdings.hold(OwnedBundle(bundle, BundleState.RECLAIMING))

    async def _fence_strangers(self) -> None:
        """Fence what is not held, or is loaded under another token; until it is certain."""
        while strangers := [
            bundle
            for bundle, token in (await self._loaded()).items()
            if not self._is_known(bundle, token)
        ]:
            log.warning("fencing %d bundles that are loaded and not held", len(strangers))
            for bundle in strangers:
                try:
                    await self._dataplane.fence(bundle)
                except DataPlaneError as error:
                    log.warning("fencing %s: %s; again", bundle, error)
                    await asyncio.sleep(_RETRY_S)

    def _is_known(self, bundle: Bundle, token: int) -> bool:
        held = self._holdings.held.get(bundle)
        if held is None:
            return False
        return held.state is not BundleState.OWNED or held.token == token

    # Taking it again.

    async def _work(self, waiting: Iterable[OwnedBundle], epoch: int) -> int:
        kept = 0
        for held in waiting:
            try:
                await self._insist(held, epoch)
                kept += 1
            except BrokerCtlError as error:
                log.warning("%s is not ours any more: %s", held.bundle, error)
                await self._let_go(held)
        return kept

    async def _insist(self, held: OwnedBundle, epoch: int) -> None:
        """A lost connection or a silent data plane is no reason to move anything (I7)."""
        for attempt in range(1, _ATTEMPTS + 1):
            # The lease may have run out since it was last looked at.
            await self._watcher.wait_authority()
            try:
                await self._take_again(held, epoch)
            except BrokerCtlError as error:
                if not error.can_retry or attempt == _ATTEMPTS:
                    raise
                log.info("taking %s again: %s; attempt %d", held.bundle, error, attempt)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _take_again(self, held: OwnedBundle, epoch: int) -> None:
        lock = held.lock
        if lock is None:
            lock = held.lock = await self._acquirer.lock(held.bundle, (), epoch)
        try:
            await self._dataplane.renew(held.bundle, lock.token)
        except DataPlaneRefused:
            # It has lost the bundle meanwhile: its topics are loaded anew.
            await self._dataplane.load(held.bundle, lock.token)
        if held.lock is not lock:
            raise BundleMoving(f"{held.bundle} was taken away while it was renewed")
        held.advance(BundleState.OWNED)

    async def _let_go(self, held: OwnedBundle) -> None:
        try:
            await self._dataplane.fence(held.bundle)
        except DataPlaneError as error:
            # No authority is granted before `_fence_strangers` has got through.
            log.warning("fencing %s: %s", held.bundle, error)
        if held.lock is not None:
            await self._releaser.give_back(held.lock)
            held.lock = None
