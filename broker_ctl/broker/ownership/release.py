"""Release of bundles: close, confirm, delete the node (docs: bundle-release)."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane, Unloaded
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    DataPlaneError,
    Fenced,
    MultiFailed,
    NotOwner,
    StoreError,
    UnloadFailed,
)
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.retry import is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation

log = logging.getLogger(__name__)

# Release of a bundle: close, confirm, delete the node (docs: bundle-release).


class Releaser:
    """Deletes a node only after the data plane confirmed that it stopped serving the bundle."""

    def __init__(
        self,
        *,
        owned_bundles: OwnedBundles,
        locks: Locks,
        owners: Owners,
        deletions: Deletions,
        dataplane: DataPlane,
        instruments: OwnershipInstruments,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._instruments = instruments
        self._owned_bundles = owned_bundles
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
        cause: OwnershipCause,
    ) -> Unloaded:
        """See `Ownership.release`."""
        held = self._owned_bundles.require_owned(bundle)
        if held.lock is None or held.token != token:
            raise NotOwner(f"{bundle} is owned under token {held.token}, not {token}")
        work = self._release(held, held.lock, unload_s, guards)
        task = self._owned_bundles.start(work, f"release {bundle}")
        held.advance(BundleState.RELEASING)
        held.cause = cause
        return await self._owned_bundles.join(task)

    async def _release(
        self,
        held: OwnedBundle,
        lock: Lock,
        unload_s: float,
        guards: Sequence[Operation],
    ) -> Unloaded:
        bundle, began_s = held.bundle, asyncio.get_running_loop().time()
        unloaded = await self._close(held, lock, unload_s)
        try:
            await self._locks.release(lock, guards)
        except MultiFailed as error:
            # Another leader was elected, or the move has ended: this broker still owns the node and
            # serves on.
            await self._resume_serving(held, lock)
            raise Fenced(f"{bundle}: {error}") from error
        except StoreError:
            # The bundle is not served any more; only its node is left.
            self._deletions.add(lock.path, lock.identity.czxid)
            self._owned_bundles.discard(held)
            raise
        finally:
            self._owners.forget(bundle)
        self._owned_bundles.discard(held)
        took_s = asyncio.get_running_loop().time() - began_s
        self._instruments.unload_s.observe(took_s)
        closed = unloaded.topics_closed
        log.info("released %s: closed %d topics in %.0f ms", bundle, closed, took_s * 1000)
        return unloaded

    async def _close(self, held: OwnedBundle, lock: Lock, unload_s: float) -> Unloaded:
        """Make the data plane confirm that it stopped serving; fencing is the last resort."""
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
            await self._resume_serving(held, lock)
            raise UnloadFailed(f"{bundle}: {reason}; fencing: {error}; it is kept") from error
        return unloaded

    async def _resume_serving(self, held: OwnedBundle, lock: Lock) -> None:
        """Load the bundle again after its release failed."""
        try:
            await self._dataplane.load(held.bundle, lock.token)
        except DataPlaneError as error:
            log.warning("cannot load %s again: %s; releasing it", held.bundle, error)
            self.give_up(held, OwnershipCause.DATA_PLANE)
            return
        # While it was closed and loaded, its node may have been deleted.
        if held.lock is lock:
            held.advance(BundleState.OWNED)
        else:
            self.give_up(held, OwnershipCause.TAKEN_AWAY)

    def give_up(self, held: OwnedBundle, cause: OwnershipCause) -> None:
        """Start to fence and release a bundle that is not, or must not be, served here."""
        held.cause = cause
        if held.state is not BundleState.RELEASING:
            held.advance(BundleState.RELEASING)
        try:
            self._owned_bundles.start(self._give_up(held, held.lock), f"give up {held.bundle}")
        except AuthorityLost:
            log.info("%s is left to the next session", held.bundle)

    async def _give_up(self, held: OwnedBundle, lock: Lock | None) -> None:
        """Fence the data plane, then delete the node; only then may the bundle come back.

        A fence that failed may still be on its way: until it has arrived, the bundle must not be
        loaded again here, nor acquired by another broker, since it may still be served here.
        """
        await retry(
            partial(self._dataplane.fence, held.bundle),
            f"cannot fence {held.bundle}",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            level=logging.WARNING,
        )
        if lock is not None:
            await self.release_lock(lock)
        self._owners.forget(held.bundle)
        self._owned_bundles.discard(held)

    def give_up_unconfirmed(self, held: OwnedBundle) -> None:
        """Delete the node of a bundle that is not loaded, if an unanswered create made one.

        The bundle would have an owner that does not serve it. Until the node is gone, this broker
        does not acquire the bundle.
        """
        if not self._locks.is_unconfirmed(paths.ownership(held.bundle)):
            self._owned_bundles.discard(held)
            return
        try:
            work = self._delete_unconfirmed(held)
            self._owned_bundles.start(work, f"look for the node of {held.bundle}")
        except AuthorityLost:
            self._owned_bundles.discard(held)

    async def _delete_unconfirmed(self, held: OwnedBundle) -> None:
        try:
            for lock in await self._locks.adopt_unheld(paths.ownership(held.bundle)):
                log.warning("%s was created by an unanswered request: deleting it", lock.path)
                await self.release_lock(lock)
        except StoreError as error:
            log.info("the node of %s stays until the session ends: %s", held.bundle, error)
        finally:
            self._owners.forget(held.bundle)
            self._owned_bundles.discard(held)

    async def release_lock(self, lock: Lock) -> None:
        """Delete a node whose bundle is not served."""
        try:
            await self._locks.release(lock)
        except StoreError as error:
            log.warning("cannot delete %s: %s; queued for retry", lock.path, error)
            self._deletions.add(lock.path, lock.identity.czxid)

    async def release_locks(self, locks: Iterable[Lock]) -> None:
        """Delete these nodes and all others of this session, such as those of cancelled acts.

        Raises:
            StoreError: the session has ended, and with it its nodes.
        """
        for lock in locks:
            await self.release_lock(lock)
        for lock in await self._locks.adopt_unheld():
            log.warning("%s was created by an unanswered request: deleting it", lock.path)
            await self.release_lock(lock)

    def is_deleting(self, path: str) -> bool:
        """Return whether a node of an earlier release is still to be deleted."""
        return path in self._deletions


# Drain: the release of all bundles within a deadline.


_IN_FLIGHT: Final = 8
_PAUSE_S: Final = 0.1

# Releases an owned bundle with this token within a number of seconds.
Release = Callable[[Bundle, int, float], Awaitable[object]]


async def drain(owned_bundles: OwnedBundles, release: Release, deadline_s: float) -> int:
    """Release in rounds; returns the number of bundles that were not released in time.

    Bundles that are being acquired, split or released in one round are released in a later one.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    try:
        async with asyncio.timeout_at(end_s):
            while owned_bundles.held:
                await _release_all(owned_bundles, release, lambda: end_s - loop.time())
                await asyncio.sleep(_PAUSE_S if owned_bundles.held else 0)
    except TimeoutError:
        log.warning("drain: not every bundle was released within %.0f s", deadline_s)
    return len(owned_bundles.held)


async def _release_all(
    owned_bundles: OwnedBundles, release: Release, left_s: Callable[[], float]
) -> None:
    waiting = iter(owned_bundles.in_state(BundleState.OWNED))

    async def work() -> None:
        for held in waiting:
            try:
                await release(held.bundle, held.token, left_s())
            except BrokerCtlError as error:
                log.warning("drain: %s is not released: %s; retrying", held.bundle, error)

    async with asyncio.TaskGroup() as group:
        for number in range(_IN_FLIGHT):
            group.create_task(work(), name=f"drain {number}")
