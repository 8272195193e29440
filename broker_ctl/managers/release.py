"""Giving a bundle up: close, confirm, delete the node (design: move, step 3 and 4)."""

import logging
from collections.abc import Sequence

from broker_ctl.coordination.deletions import Deletions
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.ownership import BundleState
from broker_ctl.dataplane.interface import DataPlane, Unloaded
from broker_ctl.errors import (
    DataPlaneError,
    Fenced,
    MultiFailed,
    NotOwner,
    StoreError,
    UnloadFailed,
)
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.owners import Owners
from broker_ctl.store.interface import Operation

log = logging.getLogger(__name__)


class Releaser:
    """The node goes only after the data plane confirmed that it stopped serving."""

    def __init__(
        self,
        *,
        holdings: Holdings,
        locks: Locks,
        owners: Owners,
        deletions: Deletions,
        dataplane: DataPlane,
    ) -> None:
        self._holdings = holdings
        self._locks = locks
        self._owners = owners
        self._deletions = deletions
        self._dataplane = dataplane

    async def release(
        self,
        bundle: Bundle,
        token: int,
        unload_s: float,
        guards: Sequence[Operation],
    ) -> Unloaded:
        """See `Ownership.release`."""
        held = self._holdings.own(bundle)
        if held.token != token:
            raise NotOwner(f"{bundle} is owned under token {held.token}, not {token}")
        held.advance(BundleState.RELEASING)
        return await self._holdings.act(self._release(held, unload_s, guards), f"release {bundle}")

    async def _release(
        self,
        held: OwnedBundle,
        unload_s: float,
        guards: Sequence[Operation],
    ) -> Unloaded:
        bundle, lock = held.bundle, held.lock
        assert lock is not None
        unloaded = await self._close(held, unload_s)
        try:
            await self._locks.release(lock, guards)
        except MultiFailed as error:
            # Another leader, or the move has ended: the node is ours still, so serve on.
            await self._dataplane.load(bundle, lock.token)
            held.advance(BundleState.OWNED)
            raise Fenced(f"{bundle}: {error}") from error
        except StoreError:
            # Nothing is served any more, so the node only has to go.
            self._deletions.add(lock.path, lock.identity.czxid)
            self._holdings.drop(held)
            raise
        finally:
            self._owners.forget(bundle)
        self._holdings.drop(held)
        log.info("released %s after closing %d topics", bundle, unloaded.topics_closed)
        return unloaded

    async def _close(self, held: OwnedBundle, unload_s: float) -> Unloaded:
        """The data plane must confirm that it stopped; fencing is the last resort."""
        bundle = held.bundle
        try:
            unloaded = await self._dataplane.unload(bundle, unload_s)
            if unloaded.is_confirmed:
                return unloaded
            reason = "topics are still open"
        except DataPlaneError as error:
            unloaded, reason = Unloaded(0, is_confirmed=False), str(error)
        try:
            await self._dataplane.fence(bundle)
        except DataPlaneError as error:
            held.advance(BundleState.OWNED)
            raise UnloadFailed(f"{bundle}: {reason}; fencing: {error}; it is kept") from error
        return unloaded

    async def fence(self, bundle: Bundle) -> None:
        """Stop serving without the node: it is gone, or about to be."""
        try:
            await self._dataplane.fence(bundle)
        except DataPlaneError as error:
            # Its tokens and its own deadline bound what it can still do.
            log.warning("fencing %s: %s", bundle, error)

    async def give_back(self, lock: Lock) -> None:
        """Delete a node under which nothing is served."""
        try:
            await self._locks.release(lock)
        except StoreError as error:
            log.warning("giving %s back: %s; queued", lock.path, error)
            self._deletions.add(lock.path, lock.identity.czxid)
