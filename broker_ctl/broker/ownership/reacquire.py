"""Bundles of this broker after the end of its session (docs: pip-57)."""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

from broker_ctl.broker.namespaces.namespaces import Namespaces, RingSnapshot
from broker_ctl.broker.ownership.acquire import Acquirer
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.broker.ownership.ring_change import finish_ring_changes
from broker_ctl.coordination.bulk_acquire import LockRequest, acquire_all
from broker_ctl.coordination.locks import Lock, Locks, stale_limit_s
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import (
    Ambiguous,
    BrokerCtlError,
    BundleMoving,
    DataPlaneError,
    DataPlaneRefused,
    Draining,
    HistoryBehind,
    SessionError,
    StaleOwner,
    StoreError,
)
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, RequestClass, requests_as

log = logging.getLogger(__name__)

# Bundles still owned by an earlier session of this broker: re-acquired once it has ended.
#
# They were closed, because authority for all other bundles would have waited for them
# (`reacquire.py`). No other broker can acquire them meanwhile: their nodes exist, and afterwards
# the grace period reserves them for this broker (I7).


_IN_FLIGHT: Final = 32


class PreviousSession:
    """An act that ends once each bundle is owned here again, or by another broker."""

    def __init__(
        self,
        owned_bundles: OwnedBundles,
        acquire: Callable[[Bundle], Coroutine[Any, Any, int]],
        *,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._owned_bundles = owned_bundles
        self._acquire = acquire

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Re-acquire each bundle once its node is gone."""
        if bundles:
            self._owned_bundles.start(self._reacquire(bundles), f"{len(bundles)} bundles return")

    async def _reacquire(self, bundles: Sequence[Bundle]) -> None:
        waiting = iter(bundles)
        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(bundles))):
                group.create_task(self._reacquire_each(waiting), name=f"return {number}")

    async def _reacquire_each(self, waiting: Iterator[Bundle]) -> None:
        for bundle in waiting:
            await self._reacquire_until_done(bundle)

    async def _reacquire_until_done(self, bundle: Bundle) -> None:
        try:
            await retry(
                partial(self._acquire, bundle),
                f"cannot re-acquire {bundle} yet",
                rng=self._rng,
                judge=lambda error: error.can_retry and not isinstance(error, Draining),
            )
        except SessionError:
            raise
        except BrokerCtlError as error:
            log.warning("%s is not re-acquired: %s", bundle, error)


# Re-acquisition of bundles in a new session: in batches, then singly for those left over.
#
# A batch creates its nodes in one transaction; its bundles are renewed while the next batches are
# on their way. An obstacle of one bundle (another owner, a data plane that has lost it) does not
# delay the others.
#
# The node of an earlier session that still lives must be waited for, and there is no authority
# until all bundles are settled. So the smaller group yields: bundles left over from an ended
# session are closed and come back later; but a restarted daemon whose earlier session owns all
# served bundles waits for the end of that session with all topics open.


_BATCH: Final = 128
# Of each broker: after an outage that ended many sessions, no server gets all requests at once.
_BATCHES_IN_FLIGHT: Final = 4
# In flight: batches at the data plane, and bundles re-acquired singly.

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


# Reclaim: re-acquisition of all bundles after a session expiry (docs: pip-57, i7-reclaim-grace).
#
# The data plane keeps the topics open, without authority. Before the new session grants
# authority, each bundle is renewed under its new token, or fenced if another broker owns it: so
# the data plane never acts under a token of an ended session.
#
# A restarted daemon does not remember its bundles. It reclaims, in the same way, those that its
# data plane still serves, and those of a session that it resumed (`stopMode=keep`).


@dataclass(frozen=True, slots=True)
class ReclaimResult:
    """Counts of one reclaim.

    Attributes:
        kept, lost: number of bundles.
        late: bundles that come back once an earlier session of this broker has ended.
        took_s: time from the start of the session until the last bundle was served or given up.
    """

    kept: int
    lost: int
    took_s: float = 0.0
    late: tuple[Bundle, ...] = ()


class Reclaim:
    """Runs at the start of each session, before the broker registers and any other act starts."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        owned_bundles: OwnedBundles,
        namespaces: Namespaces,
        reacquirer: BulkReacquirer,
        dataplane: DataPlane,
        instruments: OwnershipInstruments,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._store = store
        self._owned_bundles = owned_bundles
        self._namespaces = namespaces
        self._reacquirer = reacquirer
        self._dataplane = dataplane
        self._instruments = instruments

    async def run(self, epoch: int) -> ReclaimResult:
        """Re-acquire all bundles that are RECLAIMING.

        Returns once every loaded bundle has a token of this session.

        Raises:
            HistoryBehind: a bundle is loaded under a token that ZooKeeper has not reached yet.
        """
        with requests_as(RequestClass.BULK):
            return await self._run(epoch)

    async def _run(self, epoch: int) -> ReclaimResult:
        began_s = asyncio.get_running_loop().time()
        loaded = await self._loaded()
        self._check_history(loaded)
        await self._settle_ring_changes()
        self._add_missing(await self._own_nodes())
        self._add_missing(loaded)
        await finish_ring_changes(self._dataplane, self._owned_bundles, loaded)
        wanted = self._owned_bundles.in_state(BundleState.RECLAIMING)
        late = await self._reacquirer.reacquire(wanted, epoch)
        kept = sum(held.state is BundleState.OWNED for held in wanted)
        for held in self._owned_bundles.in_state(BundleState.RECLAIMING):
            self._owned_bundles.discard(held)
        await self._fence_unowned()
        took_s = asyncio.get_running_loop().time() - began_s
        lost = len(wanted) - kept - len(late)
        if wanted:
            self._count(kept, lost, len(late), took_s)
            log.info(
                "session %d: kept %d of %d bundles in %.3f s, at most %d acquisitions at once",
                *(epoch, kept, len(wanted), took_s, self._reacquirer.peak_in_flight),
            )
        return ReclaimResult(kept, lost, took_s, tuple(held.bundle for held in late))

    def _count(self, kept: int, lost: int, late: int, took_s: float) -> None:
        counted = self._instruments
        counted.reclaimed.add("kept", amount=kept)
        counted.reclaimed.add("late", amount=late)
        counted.lost.add("not_reclaimed", amount=lost)
        counted.reclaim_s.observe(took_s)

    # Bundles of the earlier session.

    async def _settle_ring_changes(self) -> None:
        """Find the result of a split or merge that was unanswered when the session ended.

        The server has closed that session, so its requests were executed before that or never: the
        ring shows which.
        """
        unanswered: dict[tuple[Bundle, ...], list[OwnedBundle]] = {}
        for held in self._owned_bundles.in_state(BundleState.RECLAIMING):
            if held.replacements:
                unanswered.setdefault(held.replacements, []).append(held)
        if not unanswered:
            return
        namespaces = [bundles[0].namespace for bundles in unanswered]
        rings = await retry(
            partial(self._namespaces.rings, namespaces),
            "cannot read the rings of unanswered splits and merges",
            rng=self._rng,
        )
        for new, old in unanswered.items():
            for held in old:
                held.replacements = ()
            snapshot = rings.get(new[0].namespace)
            if snapshot is not None and all(bundle in snapshot.ring for bundle in new):
                made = ", ".join(str(bundle.range) for bundle in new)
                log.info("%s became %s as the session ended", old[0].bundle, made)
                self._owned_bundles.replace(old, [_to_reclaim(bundle) for bundle in new])

    async def _own_nodes(self) -> list[Bundle]:
        """List nodes of this very session, which an earlier process created."""
        found = await retry(
            partial(self._store.ephemerals, paths.OWNERSHIP),
            "cannot list the owner nodes of this session",
            rng=self._rng,
        )
        bundles = map(paths.owned_bundle, found)
        return [bundle for bundle in bundles if bundle is not None]

    async def _loaded(self) -> dict[Bundle, int]:
        """List the bundles that the data plane serves; waits until it answers."""
        loaded = await retry(
            self._dataplane.loaded,
            "cannot list the loaded bundles",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            level=logging.WARNING,
        )
        return dict(loaded)

    def _check_history(self, loaded: Mapping[Bundle, int]) -> None:
        """Check that all loaded tokens are in the past of ZooKeeper, also after a restart.

        This session has written and got an answer, so every token handed out before is lower than
        its zxid.
        """
        bundle, token = max(loaded.items(), key=itemgetter(1), default=(None, 0))
        if token > (zxid := self._store.last_zxid):
            raise HistoryBehind(
                f"the history of ZooKeeper ends at 0x{zxid:x}, but {bundle} is loaded under token "
                f"0x{token:x}: the servers were restored from a copy, or are others; see "
                "docs/how-to/restored-zookeeper.md"
            )

    def _add_missing(self, bundles: Iterable[Bundle]) -> None:
        held = self._owned_bundles.held
        for bundle in bundles:
            if bundle in held:
                continue
            # An interrupted split or merge may have left the replaced bundles loaded: they end when
            # the held ones are loaded in their place.
            if not any(self._owned_bundles.overlapping(bundle)):
                self._owned_bundles.add(_to_reclaim(bundle))

    async def _fence_unowned(self) -> None:
        """Fence, until it succeeds, bundles that are loaded and not held under that token."""
        await retry(
            self._fence_listed,
            "cannot fence all bundles that are loaded but not owned",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            level=logging.WARNING,
        )

    async def _fence_listed(self) -> None:
        while strangers := [
            bundle
            for bundle, token in (await self._loaded()).items()
            if not self._is_known(bundle, token)
        ]:
            log.warning("fencing %d bundles that are loaded but not owned", len(strangers))
            failures: list[DataPlaneError] = []
            for bundle in strangers:
                try:
                    await self._dataplane.fence(bundle)
                except DataPlaneError as error:
                    failures.append(error)
            if failures:
                raise failures[0]

    def _is_known(self, bundle: Bundle, token: int) -> bool:
        held = self._owned_bundles.held.get(bundle)
        if held is None:
            return False
        return held.state is not BundleState.OWNED or held.token == token


def _to_reclaim(bundle: Bundle) -> OwnedBundle:
    """A bundle of an earlier session, to be re-acquired."""
    return OwnedBundle(bundle, BundleState.RECLAIMING, cause=OwnershipCause.EXPIRY)


# Log lines for the loss of the session: what operators look for first after a ZooKeeper outage.


class ServingLog:
    """Logs when this broker stops and resumes serving.

    Args:
        owned: returns the bundles held now.
    """

    def __init__(self, watcher: SessionWatcher, owned: Callable[[], Sized]) -> None:
        self._watcher = watcher
        self._owned = owned
        self._has_ended = False

    def on_session_action(self, action: SessionAction) -> None:
        """See `SessionWatcher.listen`."""
        if action is SessionAction.SESSION_LOST:
            self._lost()
        elif action is SessionAction.SESSION_REESTABLISHED and self._has_ended:
            self._has_ended = False
            log.warning(
                "the session is back: acquiring %d bundles again, as far as no other broker has "
                "them",
                len(self._owned()),
            )

    def _lost(self) -> None:
        bundles, session = len(self._owned()), self._watcher.epoch
        if withheld := self._watcher.withheld:
            self._has_ended = True
            log.warning("%d bundles are not served: %s", bundles, withheld)
            return
        if self._watcher.deadline_s == math.inf:
            log.warning(
                "session %d is lost: %d bundles stay served, since with ownershipAuthority=storage "
                "the storage rejects stale owners",
                session,
                bundles,
            )
            return
        self._has_ended = True
        log.warning(
            "session %d is lost and the lease has ended: %d bundles are not served until "
            "ZooKeeper answers again",
            session,
            bundles,
        )
