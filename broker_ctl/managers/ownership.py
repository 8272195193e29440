"""The bundles of this broker (design: safety, protocols).

One door to the acts on them: `acquire.py`, `release.py`, `split.py` and, after an expiry,
`reclaim.py` do the work on the same `Holdings`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_ctl.coordination.deletions import Deletions
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.coordination.moves import Moves
from broker_ctl.coordination.session import Grant, SessionWatcher
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.ownership import BundleState
from broker_ctl.dataplane.interface import DataPlane, Unloaded
from broker_ctl.errors import BrokerCtlError, BundleMoving, BundleReclaimable, Draining
from broker_ctl.managers.acquire import Acquirer
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.namespaces import Namespaces
from broker_ctl.managers.owners import Owners
from broker_ctl.managers.reclaim import Reclaim, Reclaimed
from broker_ctl.managers.release import Releaser
from broker_ctl.managers.split import Splitter
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Operation
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

_DRAIN_IN_FLIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may serve a bundle."""

    urls: BrokerUrls
    token: int
    is_self: bool


@dataclass(frozen=True, slots=True)
class OwnershipParts:
    """What ownership stands on."""

    store: MetadataStore
    watcher: SessionWatcher
    locks: Locks
    namespaces: Namespaces
    owners: Owners
    moves: Moves
    deletions: Deletions
    dataplane: DataPlane


class Ownership:
    """What this broker holds, and how it comes and goes."""

    def __init__(self, parts: OwnershipParts, urls: BrokerUrls, unload_s: float) -> None:
        self._parts = parts
        self._unload_s = unload_s
        self._holdings = Holdings()
        record = NamespaceEphemeralData(urls)
        self._releaser = Releaser(
            holdings=self._holdings,
            locks=parts.locks,
            owners=parts.owners,
            deletions=parts.deletions,
            dataplane=parts.dataplane,
        )
        self._acquirer = Acquirer(
            holdings=self._holdings,
            watcher=parts.watcher,
            locks=parts.locks,
            namespaces=parts.namespaces,
            owners=parts.owners,
            dataplane=parts.dataplane,
            releaser=self._releaser,
            record=record,
            on_lost=self._lock_lost,
        )
        self._splitter = Splitter(
            store=parts.store,
            holdings=self._holdings,
            watcher=parts.watcher,
            locks=parts.locks,
            namespaces=parts.namespaces,
            owners=parts.owners,
            dataplane=parts.dataplane,
            releaser=self._releaser,
            record=record,
            on_lost=self._lock_lost,
        )
        self._reclaim = Reclaim(
            holdings=self._holdings,
            acquirer=self._acquirer,
            releaser=self._releaser,
            dataplane=parts.dataplane,
        )
        self._ready_epoch = 0
        self._grant = Grant(0, 0.0)
        self.urls = urls
        self.is_draining = False
        self.lost = 0

    # State.

    @property
    def broker_id(self) -> str:
        """This broker."""
        return self.urls.broker_id

    def owned(self) -> Mapping[Bundle, OwnedBundle]:
        """All that is held, in any state. It changes under whoever awaits."""
        return MappingProxyType(self._holdings.held)

    async def owner_of(self, bundle: Bundle) -> Owner | None:
        """Who may serve the bundle; None: nobody, and it may be acquired.

        Raises:
            BundleMoving, BundleReclaimable: ask again.
            AuthorityLost: it is ours, but we may not say so now.
            CorruptRecord: a node stands there that nobody can read.
        """
        held = self._holdings.held.get(bundle)
        if held is not None:
            match held.state:
                case BundleState.OWNED:
                    self._parts.watcher.check()
                    return Owner(self.urls, held.token, is_self=True)
                case BundleState.RECLAIMING:
                    raise BundleReclaimable(f"{bundle} is being taken again after an expiry")
                case BundleState.ASSIGNING:
                    return None
                case _:
                    raise BundleMoving(f"{bundle} is {held.state}")
        record = await self._parts.owners.owner_of(bundle)
        if record is not None and record.urls.broker_id != self.broker_id:
            return Owner(record.urls, record.token, is_self=False)
        # Nobody's, or a node of ours that we do not hold: acquiring adopts or outwaits it.
        moving = self._parts.moves.of(bundle)
        if moving is not None:
            move = moving.move
            raise BundleMoving(f"{bundle}: {move.bundle} is on its way to {move.to_broker}")
        return None

    # Acts.

    async def acquire(self, bundle: Bundle, guards: Sequence[Operation] = ()) -> int:
        """Take a bundle that nobody owns; answers with the token once it is served.

        ``guards`` stand in the transaction that creates the owner node.

        Raises:
            BundleBusy, BundleGone, BundleMoving, BundleReclaimable, Draining: why not.
            Fenced: a guard failed.
            AuthorityLost: the lease has run out, or the session ended meanwhile.
        """
        if self.is_draining:
            raise Draining(f"{self.broker_id} is draining")
        return await self._acquirer.acquire(bundle, guards)

    async def unload(self, bundle: Bundle) -> Unloaded:
        """Close and give up by order of an operator; the next lookup places it.

        Raises:
            NotOwner, BundleMoving: it is not ours, or something else is going on.
            UnloadFailed: the data plane kept it open; it is still ours.
        """
        token = self._holdings.own(bundle).token
        return await self._releaser.release(bundle, token, self._unload_s, ())

    async def release(
        self,
        bundle: Bundle,
        token: int,
        unload_s: float,
        guards: Sequence[Operation],
    ) -> Unloaded:
        """Close within ``unload_s``, confirm, and give up in one transaction with ``guards``.

        Raises:
            NotOwner: not ours, or not under this token.
            UnloadFailed: not confirmed and not fenced; still ours.
            Fenced: a guard failed; served on.
        """
        return await self._releaser.release(bundle, token, unload_s, guards)

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        boundaries: tuple[int, ...] = (),
        guards: Sequence[Operation] = (),
    ) -> tuple[Bundle, ...]:
        """Replace a bundle by its children, which stay here; none where there is nothing to split.

        Raises:
            NotOwner, BundleMoving: not ours, or something else is going on.
            Fenced: a guard failed.
            SettingsError: no such algorithm. InvalidName: boundaries outside the bundle.
        """
        return await self._splitter.split(bundle, algorithm, boundaries, guards)

    async def drain(self, deadline_s: float) -> int:
        """Take nothing more and give everything up; answers with what could not be in time."""
        self.is_draining = True
        waiting = iter(self._holdings.in_state(BundleState.OWNED))

        async def work() -> None:
            for held in waiting:
                try:
                    await self._releaser.release(held.bundle, held.token, deadline_s, ())
                except BrokerCtlError as error:
                    log.warning("drain: %s: %s", held.bundle, error)

        try:
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as group:
                for number in range(_DRAIN_IN_FLIGHT):
                    group.create_task(work(), name=f"drain {number}")
        except TimeoutError:
            log.warning("drain: not everything was given up within %.0f s", deadline_s)
        return len(self._holdings.held)

    # Sessions.

    @asynccontextmanager
    async def session(self, epoch: int) -> AsyncIterator[Reclaimed]:
        """Take again what an expiry took away, then act until the session ends."""
        async with self._holdings.session():
            reclaimed = await self._reclaim.run(epoch)
            self._ready_epoch = epoch
            self.granted(self._grant)
            yield reclaimed

    def granted(self, grant: Grant) -> None:
        """Hand authority on to the data plane, once nothing of an earlier session is left in it."""
        self._grant = grant
        is_ready = grant.epoch == self._ready_epoch
        self._parts.dataplane.grant(grant.epoch, grant.deadline_s if is_ready else 0.0)

    def _lock_lost(self, lock: Lock) -> None:
        """The node is gone or somebody else's, or its session has ended."""
        bundle = paths.owned_bundle(lock.path)
        held = self._holdings.held.get(bundle) if bundle is not None else None
        # Late news of an earlier generation must not touch the bundle as it is now (#26197).
        if held is None or held.lock is not lock:
            return
        self.lost += 1
        self._parts.owners.forget(held.bundle)
        if lock.identity.session_id != self._parts.store.session_id:
            return  # the end of the session is handled for all bundles at once
        log.warning("%s was taken away: fencing", held.bundle)
        self._holdings.drop(held)
        self._holdings.start(self._releaser.fence(held.bundle), f"fence {held.bundle}")
