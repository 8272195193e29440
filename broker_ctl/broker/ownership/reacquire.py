"""Re-acquisition of bundles in a new session: in batches, then one by one what is left.

A batch is one transaction for the nodes, followed by the renewals of its bundles while the next
ones are on their way. Whatever stands in the way of one bundle (another owner, a data plane that
lost it) is no matter for the others.

A node of an earlier session that still lives has to be waited for, and until all is settled nobody
has authority. So the fewer give way to the more: what is left over of a session that has ended is
closed, and comes back later; a daemon that was started anew, and whose former session has all that
it serves, waits for its end with all topics open.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from broker_ctl.broker.namespaces.namespaces import Namespaces, RingSnapshot
from broker_ctl.broker.ownership.acquire import Acquirer
from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.coordination.locks.bulk_acquire import LockRequest, acquire_all
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.locks.stale_nodes import stale_limit_s
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Namespace
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    BundleMoving,
    DataPlaneError,
    DataPlaneRefused,
    SessionError,
    StaleOwner,
    StoreError,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)

_BATCH: Final = 128
_BATCHES_IN_FLIGHT: Final = 4
_WINDOW_S: Final = 0.3
# Of a batch at the data plane, and of what is taken one by one.
_IN_FLIGHT: Final = 32
_ATTEMPTS: Final = 5
_RETRY_S: Final = 0.5
# For the node of an earlier session: they are waited for together.
_NO_WAIT_S: Final = 0.0


def _place(held: OwnedBundle) -> tuple[str, str, int]:
    namespace = held.bundle.namespace
    return namespace.tenant, namespace.name, held.bundle.range.low


class BulkReacquirer:
    """Works on bundles that are RECLAIMING, before anything else acts in the session.

    Args:
        is_preloading: whether the topics of a bundle that the data plane has lost meanwhile are
            opened at once, and not each when its first client comes.
    """

    def __init__(
        self,
        *,
        store: MetadataStore,
        watcher: SessionWatcher,
        locks: Locks,
        namespaces: Namespaces,
        acquirer: Acquirer,
        releaser: Releaser,
        dataplane: DataPlane,
        rng: random.Random,
        is_preloading: bool,
    ) -> None:
        self._store = store
        self._watcher = watcher
        self._locks = locks
        self._namespaces = namespaces
        self._acquirer = acquirer
        self._releaser = releaser
        self._dataplane = dataplane
        self._rng = rng
        self._is_preloading = is_preloading
        self._in_flight = 0
        self.peak_in_flight = 0

    async def reacquire(self, wanted: Sequence[OwnedBundle], epoch: int) -> list[OwnedBundle]:
        """Make each bundle OWNED or give it up; returns those that may come back later.

        Raises:
            ExceptionGroup: with `SessionError`: this session has ended too, and moves nothing.
        """
        self.peak_in_flight = 0
        limit_s = stale_limit_s(self._store.session_timeout_s, self._watcher.tick_s)
        until_s = asyncio.get_running_loop().time() + limit_s
        if len(wanted) > _BATCH:
            # An outage ends the sessions of many brokers at once.
            await asyncio.sleep(self._rng.uniform(0, _WINDOW_S))
        stale = list(wanted)
        while stale := await self._settle(stale, epoch):
            left_s = until_s - asyncio.get_running_loop().time()
            kept = sum(held.state is BundleState.OWNED for held in wanted)
            if kept >= len(stale) or left_s <= 0:
                break
            log.info("%d nodes of an earlier session still exist: waiting for its end", len(stale))
            await self._wait_gone(stale[0], left_s)
        for held in stale:
            log.warning(
                "%s has a node of an earlier session: closed until that session ends", held.bundle
            )
            await self._give_up(held)
        return stale

    async def _wait_gone(self, held: OwnedBundle, limit_s: float) -> None:
        """One for all: they are of one session."""
        try:
            node = await self._store.get(paths.ownership(held.bundle))
            if node is not None:
                await self._locks.wait_deleted(node, limit_s)
        except SessionError:
            raise
        except StoreError as error:
            log.info("%s: %s; reading it again", held.bundle, error)
            await asyncio.sleep(_RETRY_S)

    async def _settle(self, wanted: Sequence[OwnedBundle], epoch: int) -> list[OwnedBundle]:
        """Re-acquire what is possible now; returns bundles with a node of an earlier session."""
        rings = await self._rings(wanted)
        # By namespace: the fewer rings there are in a batch, the fewer are checked.
        ordered = sorted(wanted, key=_place)
        batches = (ordered[at : at + _BATCH] for at in range(0, len(ordered), _BATCH))
        async with asyncio.TaskGroup() as group:
            for number in range(_BATCHES_IN_FLIGHT):
                work = self._reacquire_batches(batches, rings, epoch)
                group.create_task(work, name=f"retake {number}")
        left = [held for held in ordered if held.state is BundleState.RECLAIMING]
        waiting = iter(left)
        stale: list[OwnedBundle] = []
        async with asyncio.TaskGroup() as group:
            for number in range(min(_BATCHES_IN_FLIGHT * _IN_FLIGHT, len(left))):
                work = self._reacquire_singly(waiting, stale, epoch)
                group.create_task(work, name=f"retake one {number}")
        return stale

    async def _rings(self, wanted: Iterable[OwnedBundle]) -> Mapping[Namespace, RingSnapshot]:
        """All in one go, while others have the servers; what changes until then fails its check."""
        try:
            return await self._namespaces.rings({held.bundle.namespace for held in wanted})
        except SessionError:
            raise
        except BrokerCtlError as error:
            log.info("cannot read the rings: %s; reading them one by one", error)
            return {}

    # Batches.

    async def _reacquire_batches(
        self,
        batches: Iterator[list[OwnedBundle]],
        rings: Mapping[Namespace, RingSnapshot],
        epoch: int,
    ) -> None:
        for batch in batches:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    await self._reacquire_batch(batch, rings, epoch)
                except SessionError:
                    raise
                except BrokerCtlError as error:
                    log.info("re-acquiring %d bundles: %s; attempt %d", len(batch), error, attempt)
                    if not error.can_retry and not isinstance(error, Ambiguous):
                        break
                    await asyncio.sleep(_RETRY_S)
                else:
                    break

    async def _reacquire_batch(
        self, batch: Sequence[OwnedBundle], rings: Mapping[Namespace, RingSnapshot], epoch: int
    ) -> None:
        """Lock and renew; what could not be is still RECLAIMING."""
        # The lease may have run out since it was last looked at.
        await self._watcher.wait_authority()
        wanted: dict[str, OwnedBundle] = {}
        requests: list[LockRequest] = []
        for held in batch:
            snapshot = rings.get(held.bundle.namespace)
            if held.lock is None and snapshot is not None and held.bundle in snapshot.ring:
                path = paths.ownership(held.bundle)
                wanted[path] = held
                requests.append(LockRequest(path, snapshot.checks))
        # The rings may have changed since, which the checks find; the lease is checked here.
        self._watcher.check_epoch(epoch)
        with self._counted():
            locks = await acquire_all(
                self._store, self._locks, requests, self._acquirer.record, self._acquirer.on_lost
            )
        for lock in locks:
            wanted[lock.path].lock = lock
        locked = [held for held in batch if held.lock is not None]
        waiting = iter(locked)
        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(locked))):
                group.create_task(self._renew_each(waiting), name=f"renew {number}")

    async def _renew_each(self, waiting: Iterator[OwnedBundle]) -> None:
        for held in waiting:
            # It may have been taken away while the others were renewed.
            if held.lock is None or held.state is not BundleState.RECLAIMING:
                continue
            try:
                await self._serve(held, held.lock)
            except BrokerCtlError as error:
                log.info(
                    "%s has its node but was not renewed: %s; retrying by itself",
                    held.bundle,
                    error,
                )

    # One by one.

    async def _reacquire_singly(
        self, waiting: Iterator[OwnedBundle], stale: list[OwnedBundle], epoch: int
    ) -> None:
        for held in waiting:
            try:
                await self._reacquire_with_retries(held, epoch)
            except SessionError:
                raise
            except StaleOwner:
                stale.append(held)
            except BrokerCtlError as error:
                log.warning("%s was lost: %s", held.bundle, error)
                await self._give_up(held)

    async def _reacquire_with_retries(self, held: OwnedBundle, epoch: int) -> None:
        """A lost connection or a silent data plane is no reason to move anything (I7)."""
        for attempt in range(1, _ATTEMPTS + 1):
            await self._watcher.wait_authority()
            try:
                await self._reacquire_one(held, epoch)
            except StaleOwner:
                raise
            except BrokerCtlError as error:
                if not error.can_retry or attempt == _ATTEMPTS:
                    raise
                log.info("re-acquiring %s: %s; attempt %d", held.bundle, error, attempt)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _reacquire_one(self, held: OwnedBundle, epoch: int) -> None:
        lock = held.lock
        if lock is None:

            async def judge() -> None:
                # It is this broker that the grace is for; but its lease may have run out since.
                self._watcher.check_epoch(epoch)

            with self._counted():
                lock = held.lock = await self._acquirer.lock(held.bundle, (), judge, _NO_WAIT_S)
        await self._serve(held, lock)

    async def _serve(self, held: OwnedBundle, lock: Lock) -> None:
        """Renew; where the data plane has lost the bundle meanwhile, load it anew."""
        try:
            await self._dataplane.renew(held.bundle, lock.token)
        except DataPlaneRefused as error:
            log.info("%s is loaded again: %s", held.bundle, error)
            is_preloading = self._is_preloading
            await self._dataplane.load(held.bundle, lock.token, is_preloading=is_preloading)
        if held.lock is not lock:
            raise BundleMoving(f"{held.bundle} was taken away while it was renewed")
        held.advance(BundleState.OWNED)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
        try:
            yield
        finally:
            self._in_flight -= 1

    async def _give_up(self, held: OwnedBundle) -> None:
        try:
            await self._dataplane.fence(held.bundle)
        except DataPlaneError as error:
            # No authority is granted before strangers are fenced for certain.
            log.warning("fencing %s: %s", held.bundle, error)
        if held.lock is not None:
            await self._releaser.release_lock(held.lock)
            held.lock = None
