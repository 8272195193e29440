"""The bundles of this broker, and the operations on them, composed (docs: invariants)."""

import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.acquire import Acquirer
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles, OwnershipChange
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.reacquire import (
    BulkReacquirer,
    PreviousSession,
    Reclaim,
    ReclaimResult,
)
from broker_ctl.broker.ownership.release import Releaser, drain
from broker_ctl.broker.ownership.ring_change import Merger, RingChanger, Splitter
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.directives import Moves
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.coordination.session import Grant, SessionWatcher
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.dataplane.bundles.interface import DataPlane, Unloaded
from broker_ctl.errors import AuthorityLost, BundleMoving, Draining
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Operation
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

# The operations on the bundles of this broker, composed.


@dataclass(frozen=True, slots=True)
class OwnershipDependencies:
    """The parts that ownership depends on; for ``is_preloading`` see `BulkReacquirer`.

    ``split_rules`` is called at each split by traffic, because the rules may change at run time.
    """

    store: MetadataStore
    watcher: SessionWatcher
    locks: Locks
    namespaces: Namespaces
    owners: Owners
    moves: Moves
    deletions: Deletions
    dataplane: DataPlane
    rng: random.Random
    is_preloading: bool = True
    split_rules: Callable[[], SplitRules] = SplitRules
    on_owner_change: Callable[[OwnershipChange], None] | None = None
    instruments: OwnershipInstruments = field(default_factory=OwnershipInstruments)


@dataclass(frozen=True, slots=True)
class BundleOperations:
    """All operations on the bundles of this broker; they share one `OwnedBundles`."""

    releaser: Releaser
    acquirer: Acquirer
    splitter: Splitter
    merger: Merger
    reclaim: Reclaim

    @classmethod
    def of(
        cls,
        dependencies: OwnershipDependencies,
        urls: BrokerUrls,
        bundles: OwnedBundles,
        on_lost: Callable[[Lock], None],
    ) -> Self:
        """Build the operations; ``on_lost`` gets the lock of an owner node that was deleted."""
        record = NamespaceEphemeralData(urls)
        releaser = _releaser(dependencies, bundles)
        acquirer = Acquirer(
            owned_bundles=bundles,
            watcher=dependencies.watcher,
            locks=dependencies.locks,
            namespaces=dependencies.namespaces,
            owners=dependencies.owners,
            dataplane=dependencies.dataplane,
            releaser=releaser,
            record=record,
            on_lost=on_lost,
        )
        changer = RingChanger(
            store=dependencies.store,
            owned_bundles=bundles,
            watcher=dependencies.watcher,
            locks=dependencies.locks,
            namespaces=dependencies.namespaces,
            owners=dependencies.owners,
            dataplane=dependencies.dataplane,
            releaser=releaser,
            record=record,
            on_lost=on_lost,
            rng=dependencies.rng,
        )
        splitter = Splitter(
            owned_bundles=bundles,
            dataplane=dependencies.dataplane,
            changer=changer,
            rules=dependencies.split_rules,
        )
        merger = Merger(owned_bundles=bundles, dataplane=dependencies.dataplane, changer=changer)
        reclaim = _reclaim(dependencies, bundles, acquirer, releaser)
        return cls(releaser, acquirer, splitter, merger, reclaim)


def _releaser(dependencies: OwnershipDependencies, bundles: OwnedBundles) -> Releaser:
    return Releaser(
        owned_bundles=bundles,
        locks=dependencies.locks,
        owners=dependencies.owners,
        deletions=dependencies.deletions,
        dataplane=dependencies.dataplane,
        instruments=dependencies.instruments,
        rng=dependencies.rng,
    )


def _reclaim(
    dependencies: OwnershipDependencies,
    bundles: OwnedBundles,
    acquirer: Acquirer,
    releaser: Releaser,
) -> Reclaim:
    reacquirer = BulkReacquirer(
        store=dependencies.store,
        watcher=dependencies.watcher,
        locks=dependencies.locks,
        namespaces=dependencies.namespaces,
        acquirer=acquirer,
        releaser=releaser,
        dataplane=dependencies.dataplane,
        rng=dependencies.rng,
        is_preloading=dependencies.is_preloading,
    )
    return Reclaim(
        store=dependencies.store,
        owned_bundles=bundles,
        namespaces=dependencies.namespaces,
        reacquirer=reacquirer,
        dataplane=dependencies.dataplane,
        instruments=dependencies.instruments,
        rng=dependencies.rng,
    )


# The bundles of this broker (docs: invariants).
#
# A facade for the acts on them: `acquire.py`, `release.py`, `split.py`, `merge.py` and, after a
# session expiry, `reclaim.py` work on the same `OwnedBundles`.


@dataclass(frozen=True, slots=True)
class Owner:
    """The broker that may serve a bundle."""

    urls: BrokerUrls
    token: int
    is_self: bool


class Ownership:
    """The bundles of this broker: acquired, released, split and merged.

    Attributes:
        granted: what the data plane may act on: nothing while it may serve what is not owned.
        held_at: as `OwnedBundles.at`; needs no ring, which may be out of reach.
    """

    def __init__(
        self,
        dependencies: OwnershipDependencies,
        urls: BrokerUrls,
        unload_s: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._dependencies = dependencies
        self._unload_s = unload_s
        self._on_change = on_change
        self._owned_bundles = OwnedBundles(dependencies.on_owner_change)
        self._acts = BundleOperations.of(dependencies, urls, self._owned_bundles, self._lock_lost)
        acquire = partial(
            self.acquire, cause=OwnershipCause.EXPIRY, is_preloading=dependencies.is_preloading
        )
        self._previous_session = PreviousSession(self._owned_bundles, acquire, rng=dependencies.rng)
        self.held_at = self._owned_bundles.at
        self._ready_epoch = 0
        self._grant = Grant(0, 0.0)
        self.granted = self._grant
        self.urls = urls
        self.is_draining = False

    # State.

    @property
    def broker_id(self) -> str:
        """The id of this broker."""
        return self.urls.broker_id

    def owned(self) -> Mapping[Bundle, OwnedBundle]:
        """A live view of the bundles in all states; it may change during any await."""
        return self._owned_bundles.held

    @property
    def version(self) -> int:
        """Grows with each change of what `recall_owner` and `is_known_free` answer from.

        What is not free for a while is free later without a change.
        """
        dependencies = self._dependencies
        return (
            self._owned_bundles.version
            + dependencies.owners.cache.version
            + dependencies.moves.version
        )

    def recall_owner(self, bundle: Bundle) -> BrokerUrls | None:
        """The addresses of the owner, if memory has them; None: `owner_of` decides.

        The caller checks the authority of this broker first, and does not wait in between.
        """
        held = self._owned_bundles.held.get(bundle)
        if held is not None:
            return self.urls if held.state is BundleState.OWNED else None
        record = self._dependencies.owners.recall(bundle)
        if record is None or record.is_disabled or record.urls.broker_id == self.broker_id:
            return None
        return record.urls

    def is_known_free(self, bundle: Bundle) -> bool:
        """Whether memory says that `owner_of` would find no owner; False also while unknown."""
        owned, dependencies = self._owned_bundles, self._dependencies
        return (
            dependencies.owners.is_known_free(bundle)
            and not any(owned.overlapping(bundle))
            and dependencies.moves.of(bundle) is None
        )

    async def owner_of(self, bundle: Bundle) -> Owner | None:
        """Find the broker that may serve the bundle; None if it may be acquired.

        Raises:
            BundleMoving, BundleReclaimable: the caller should retry. Raised here, so that repeated
                lookups within the grace period of the owner do not reach the leader.
            AuthorityLost: this broker owns it, but may not answer now.
            CorruptRecord: the owner node does not decode.
        """
        held = self._owned_bundles.held.get(bundle)
        if held is not None:
            match held.state:
                case BundleState.OWNED:
                    self._dependencies.watcher.check()
                    return Owner(self.urls, held.token, is_self=True)
                case BundleState.ASSIGNING:
                    return None
                case _:
                    raise held.unavailable_error()
        record = await self._dependencies.owners.owner_of(bundle)
        if record is not None and record.urls.broker_id != self.broker_id:
            if record.is_disabled:
                raise BundleMoving(f"{bundle} is being unloaded by {record.urls.broker_id}")
            return Owner(record.urls, record.token, is_self=False)
        for held in self._owned_bundles.overlapping(bundle):
            # A split or merge was committed, and its notification is on the way.
            raise BundleMoving(f"{bundle}: {held.bundle} is {held.state}")
        # Without an owner, or a stale node of this broker: an acquisition creates the node or
        # waits.
        moving = self._dependencies.moves.of(bundle)
        if moving is not None:
            move = moving.move
            raise BundleMoving(f"{bundle}: {move.bundle} is being moved to {move.to_broker}")
        await self._dependencies.owners.check_reclaim(bundle, self.broker_id)
        return None

    # Acts.

    async def acquire(
        self,
        bundle: Bundle,
        guards: Sequence[Operation] = (),
        cause: OwnershipCause = OwnershipCause.PLACEMENT,
        *,
        is_preloading: bool = True,
    ) -> int:
        """Acquire a bundle without an owner; returns the token once the bundle is served.

        ``guards`` are part of the transaction that creates the owner node. ``is_preloading``: the
        bundle's topics are opened now, not when their first clients come.

        Raises:
            BundleBusy, BundleGone, BundleMoving, BundleReclaimable, Draining: it cannot be acquired
                now.
            Fenced: a guard failed.
            AuthorityLost: the lease has run out, or the session ended meanwhile.
        """
        if self.is_draining:
            raise Draining(f"{self.broker_id} is draining")
        self.check_ready()
        with self._notifying():
            return await self._acts.acquirer.acquire(
                bundle, guards, cause, is_preloading=is_preloading
            )

    async def unload(self, bundle: Bundle) -> Unloaded:
        """Close and release a bundle on request of an operator; the next lookup places it.

        Raises:
            NotOwner, BundleMoving: this broker does not own it, or another act on it is running.
            UnloadFailed: the data plane did not close it; this broker still owns it.
            AuthorityLost: the session ended during the act.
        """
        token = self._owned_bundles.require_owned(bundle).token
        return await self.release(bundle, token, self._unload_s(), (), OwnershipCause.UNLOAD)

    async def release(
        self,
        bundle: Bundle,
        token: int,
        unload_s: float,
        guards: Sequence[Operation],
        cause: OwnershipCause = OwnershipCause.TRANSFER,
    ) -> Unloaded:
        """Close within ``unload_s``, confirm, and delete the owner node along with ``guards``.

        Raises:
            NotOwner: this broker does not own it, or not under this token.
            UnloadFailed: it was neither closed nor fenced; this broker still owns it.
            Fenced: a guard failed; the bundle stays served.
            AuthorityLost: the session ended during the act.
        """
        self.check_ready()
        with self._notifying():
            return await self._acts.releaser.release(bundle, token, unload_s, guards, cause)

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        boundaries: tuple[int, ...] = (),
        guards: Sequence[Operation] = (),
    ) -> tuple[Bundle, ...]:
        """Replace a bundle by its children, which stay here; none if there is nothing to split.

        Raises:
            NotOwner, BundleMoving: this broker does not own it, or another act on it is running.
            Fenced: a guard failed.
            SettingsError: there is no such algorithm. InvalidName: a boundary lies outside the
                bundle.
            AuthorityLost: the session ended during the act.
        """
        self.check_ready()
        with self._notifying():
            return await self._acts.splitter.split(bundle, algorithm, boundaries, guards)

    async def merge(
        self, left: Bundle, right: Bundle, guards: Sequence[Operation] = ()
    ) -> tuple[Bundle, int]:
        """Replace two adjacent bundles by one, which stays here; returns it with its token.

        Raises:
            NotOwner, BundleMoving: this broker does not own both, or another act on one is running.
            InvalidName: ``right`` does not begin where ``left`` ends.
            Fenced: a guard failed.
            AuthorityLost: the session ended during the act.
        """
        self.check_ready()
        with self._notifying():
            return await self._acts.merger.merge(left, right, guards)

    async def drain(self, deadline_s: float) -> int:
        """Stop acquiring and release all bundles; returns the number not released in time."""
        self.is_draining = True
        release = partial(self.release, guards=(), cause=OwnershipCause.DRAIN)
        return await drain(self._owned_bundles, release, deadline_s)

    # Sessions.

    @asynccontextmanager
    async def session(self, epoch: int) -> AsyncIterator[ReclaimResult]:
        """Re-acquire the bundles of an expired session, then admit acts until this session ends."""
        async with self._owned_bundles.session():
            yield await self._begin(epoch)

    async def release_all(self) -> None:
        """Release all bundles although the data plane is silent; call `restart` once it answers.

        The process may use its authority until the lease ends, so the owner nodes stay until then
        (I11). If no lease ends its authority, the storage must reject its stale tokens.
        """
        self._ready_epoch = 0
        granted_until_s = self.granted.deadline_s
        self.on_grant(self._grant)
        locks = [held.lock for held in self._owned_bundles.held.values() if held.lock is not None]
        await self._owned_bundles.interrupt(OwnershipCause.DATA_PLANE)
        if granted_until_s < math.inf:
            await self._dependencies.watcher.wait_past(granted_until_s)
        await self._acts.releaser.release_locks(locks)
        for held in list(self._owned_bundles.held.values()):
            self._dependencies.owners.forget(held.bundle)
            self._owned_bundles.discard(held)

    async def restart(self, epoch: int) -> ReclaimResult:
        """Re-acquire, after `release_all`, the free bundles that the data plane still serves."""
        self._owned_bundles.resume()
        return await self._begin(epoch)

    async def _begin(self, epoch: int) -> ReclaimResult:
        with self._notifying():
            reclaimed = await self._acts.reclaim.run(epoch)
        self._ready_epoch = epoch
        self.on_grant(self._grant)
        self._previous_session.begin(reclaimed.late)
        return reclaimed

    def on_grant(self, grant: Grant) -> None:
        """Grant the data plane authority once it serves nothing of an earlier session."""
        self._grant = grant
        is_ready = grant.epoch == self._ready_epoch
        self.granted = grant if is_ready else Grant(grant.epoch, 0.0)
        self._dependencies.dataplane.grant(self.granted.epoch, self.granted.deadline_s)

    def check_ready(self) -> None:
        """Check that bundles may be acquired and released here.

        Raises:
            AuthorityLost: the lease has run out, bundles are still being re-acquired, or all were
                released.
        """
        self._dependencies.watcher.check()
        if self._ready_epoch != self._dependencies.watcher.epoch:
            raise AuthorityLost(f"{self.broker_id} is still re-acquiring its bundles")

    def _lock_lost(self, lock: Lock) -> None:
        """Handle an owner node that was deleted or replaced while the session lives."""
        bundle = paths.owned_bundle(lock.path)
        held = self._owned_bundles.held.get(bundle) if bundle is not None else None
        # A late event about an earlier generation must not affect the bundle as it is now (#26197).
        if held is None or held.lock is not lock:
            return
        self._dependencies.instruments.lost.add("taken_away")
        held.lock = None
        self._dependencies.owners.forget(held.bundle)
        log.warning("the owner node of %s was deleted or replaced", held.bundle)
        # In any other state an act is running, which finds that its lock is gone.
        if held.state is BundleState.OWNED:
            self._acts.releaser.give_up(held, OwnershipCause.TAKEN_AWAY)
        self._on_change()

    @contextmanager
    def _notifying(self) -> Iterator[None]:
        """Notify listeners of a possible change of the owned bundles, whatever the outcome."""
        try:
            yield
        finally:
            self._on_change()
