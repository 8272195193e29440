"""Re-acquisition of bundles in a new session: in batches, then singly for those left over.

A batch creates its nodes in one transaction; its bundles are renewed while the next batches are on
their way. An obstacle of one bundle (another owner, a data plane that has lost it) does not delay
the others.

The node of an earlier session that still lives must be waited for, and there is no authority until
all bundles are settled. So the smaller group yields: bundles left over from an ended session are
closed and come back later; but a restarted daemon whose earlier session owns all served bundles
waits for the end of that session with all topics open.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import attrgetter
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
from broker_ctl.retry import Backoff, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)

_BATCH: Final = 128
# Of each broker: after an outage that ended many sessions, no server gets all requests at once.
_BATCHES_IN_FLIGHT: Final = 4
# In flight: batches at the data plane, and bundles re-acquired singly.
_IN_FLIGHT: Final = 32
_ATTEMPTS: Final = 5
# All attempts together bridge two seconds on average.
_BACKOFF: Final = Backoff(first_s=1.0, factor=1.0, max_s=1.0)
# In flight: waits for nodes of the earlier session.
_NO_WAIT_S: Final = 0.0


def _place(held: OwnedBundle) -> tuple[str, str, int]:
    namespace = held.bundle.namespace
    return namespace.tenant, namespace.name, held.bundle.range.low


class BulkReacquirer:
    """Works on RECLAIMING bundles, before any other act of the session.

    Args:
        is_preloading: whether the topics of a bundle that the data plane has lost are opened at
            once, not when their first clients come.
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
        """Re-acquire or give up each bundle; returns those that may come back later.

        Raises:
            ExceptionGroup: with `SessionError`: this session has ended too; no bundle moves.
        """
        self.peak_in_flight = 0
        limit_s = stale_limit_s(self._store.session_timeout_s, self._watcher.tick_s)
        until_s = asyncio.get_running_loop().time() + limit_s
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
        """Wait for one node of the earlier session; all others go with it."""

        async def wait() -> None:
            node = await self._store.get(paths.ownership(held.bundle))
            if node is not None:
                await self._locks.wait_deleted(node, limit_s)

        what = f"cannot read the owner of {held.bundle}"
        try:
            await retry(wait, what, rng=self._rng, limit_s=limit_s)
        except SessionError:
            raise
        except StoreError as error:
            log.info("%s: %s; re-acquiring what is possible", what, error)

    async def _settle(self, wanted: Sequence[OwnedBundle], epoch: int) -> list[OwnedBundle]:
        """Re-acquire all possible bundles; returns those with a node of an earlier session."""
        rings = await self._rings(wanted)
        # Sorted by namespace: a batch then covers few rings, each of which adds a check.
        ordered = sorted(wanted, key=_place)
        batches = (ordered[at : at + _BATCH] for at in range(0, len(ordered), _BATCH))
        async with asyncio.TaskGroup() as group:
            for number in range(_BATCHES_IN_FLIGHT):
                work = self._reacquire_batches(batches, rings, epoch)
                group.create_task(work, name=f"reacquire batches {number}")
        left = [held for held in ordered if held.state is BundleState.RECLAIMING]
        waiting = iter(left)
        stale: list[OwnedBundle] = []
        async with asyncio.TaskGroup() as group:
            for number in range(min(_BATCHES_IN_FLIGHT * _IN_FLIGHT, len(left))):
                work = self._reacquire_singly(waiting, stale, epoch)
                group.create_task(work, name=f"reacquire singly {number}")
        return stale

    async def _rings(self, wanted: Iterable[OwnedBundle]) -> Mapping[Namespace, RingSnapshot]:
        """Read all rings in one request; a ring that changes later fails its check."""
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
            what = f"cannot re-acquire a batch of {len(batch)} bundles"
            try:
                await retry(
                    partial(self._reacquire_batch, batch, rings, epoch),
                    what,
                    rng=self._rng,
                    judge=lambda error: error.can_retry or isinstance(error, Ambiguous),
                    backoff=_BACKOFF,
                    attempts=_ATTEMPTS,
                )
            except SessionError:
                raise
            except BrokerCtlError as error:
                log.info("%s: %s; re-acquiring them one by one", what, error)

    async def _reacquire_batch(
        self, batch: Sequence[OwnedBundle], rings: Mapping[Namespace, RingSnapshot], epoch: int
    ) -> None:
        """Lock and renew; bundles that fail stay RECLAIMING."""
        # The lease may have run out since the last check.
        await self._watcher.wait_authority()
        wanted: dict[str, OwnedBundle] = {}
        requests: list[LockRequest] = []
        for namespace, of_namespace in groupby(batch, key=attrgetter("bundle.namespace")):
            snapshot = rings.get(namespace)
            if snapshot is None:
                continue
            checks = snapshot.checks
            for held in of_namespace:
                if held.lock is None and held.bundle in snapshot.ring:
                    path = paths.ownership(held.bundle)
                    wanted[path] = held
                    requests.append(LockRequest(path, checks))
        # Checks of the transaction find rings that changed; the lease is checked here.
        self._watcher.check_epoch(epoch)
        with self._counted():
            locks = await acquire_all(
                self._store, self._locks, requests, self._acquirer.record, self._acquirer.on_lost
            )
        for lock in locks:
            wanted[lock.path].hold(lock)
        locked = [held for held in batch if held.lock is not None]
        waiting = iter(locked)
        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(locked))):
                group.create_task(self._renew_each(waiting), name=f"renew {number}")

    async def _renew_each(self, waiting: Iterator[OwnedBundle]) -> None:
        for held in waiting:
            # Its node may have been deleted while others were renewed.
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
                # A lost connection or a silent data plane does not give a bundle up (I7).
                await retry(
                    partial(self._reacquire_one, held, epoch),
                    f"cannot re-acquire {held.bundle}",
                    rng=self._rng,
                    judge=lambda error: error.can_retry and not isinstance(error, StaleOwner),
                    backoff=_BACKOFF,
                    attempts=_ATTEMPTS,
                )
            except SessionError:
                raise
            except StaleOwner:
                stale.append(held)
            except BrokerCtlError as error:
                log.warning("%s was lost: %s", held.bundle, error)
                await self._give_up(held)

    async def _reacquire_one(self, held: OwnedBundle, epoch: int) -> None:
        await self._watcher.wait_authority()
        lock = held.lock
        if lock is None:

            async def judge() -> None:
                # The grace period is for this broker, but its lease may have run out.
                self._watcher.check_epoch(epoch)

            with self._counted():
                lock = held.hold(await self._acquirer.lock(held.bundle, (), judge, _NO_WAIT_S))
        await self._serve(held, lock)

    async def _serve(self, held: OwnedBundle, lock: Lock) -> None:
        """Renew the bundle, or load it again if the data plane has lost it."""
        try:
            await self._dataplane.renew(held.bundle, lock.token)
        except DataPlaneRefused as error:
            log.info("cannot renew %s: %s; loading it again", held.bundle, error)
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
            # Authority is granted only after all foreign bundles are certainly fenced.
            log.warning("cannot fence %s: %s", held.bundle, error)
        if held.lock is not None:
            await self._releaser.release_lock(held.lock)
            held.lock = None
