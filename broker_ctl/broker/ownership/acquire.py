"""Acquisition of a bundle without an owner (docs: acquire)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.coordination.locks import Lock, LockBusy, Locks
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.lock import Claim
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import (
    AuthorityLost,
    BundleBusy,
    BundleGone,
    BundleMoving,
    CorruptRecord,
    DataPlaneError,
    Fenced,
    MultiFailed,
    StaleOwner,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.tracing.spans import child_span

log = logging.getLogger(__name__)

_RING_RETRIES: Final = 7
# The client of a lookup waits this long, then retries.
_STALE_LIMIT_S: Final = 10.0


class Acquirer:
    """Creates the owner node while the ring has the bundle, and lets the data plane load it."""

    def __init__(
        self,
        *,
        owned_bundles: OwnedBundles,
        watcher: SessionWatcher,
        locks: Locks,
        namespaces: Namespaces,
        owners: Owners,
        dataplane: DataPlane,
        releaser: Releaser,
        record: NamespaceEphemeralData,
        on_lost: Callable[[Lock], None],
    ) -> None:
        self._owned_bundles = owned_bundles
        self._watcher = watcher
        self._locks = locks
        self._namespaces = namespaces
        self._owners = owners
        self._dataplane = dataplane
        self._releaser = releaser
        self._broker_id = record.urls.broker_id
        # The payload of every owner node of this broker, and the listener for nodes that are taken
        # away.
        self.record = record.encode()
        self.on_lost = on_lost
        self._acquiring: dict[Bundle, tuple[Sequence[Operation], asyncio.Task[int]]] = {}

    async def acquire(
        self,
        bundle: Bundle,
        guards: Sequence[Operation],
        cause: OwnershipCause,
        *,
        is_preloading: bool,
    ) -> int:
        """See `Ownership.acquire`. Equal calls join the first, which decides about preloading."""
        # Checked first: without authority the answer must not wait for an unreachable store.
        self._watcher.check()
        while (acquiring := self._acquiring.get(bundle)) is not None:
            guarded_by, task = acquiring
            if list(guarded_by) == list(guards):
                return await self._owned_bundles.join(task)
            # A guard of the joined call failed, which says nothing about the guards of this call.
            await asyncio.wait([task])
        held = self._owned_bundles.held.get(bundle)
        if held is not None and held.state is BundleState.OWNED:
            return held.token
        held = OwnedBundle(bundle, cause=cause)
        work = self._acquire(held, guards, self._watcher.epoch, is_preloading=is_preloading)
        task = self._owned_bundles.start(work, f"acquire {bundle}")
        task.add_done_callback(lambda _: self._acquiring.pop(bundle, None))
        self._acquiring[bundle] = guards, task
        return await self._owned_bundles.join(task)

    async def _acquire(
        self, held: OwnedBundle, guards: Sequence[Operation], epoch: int, *, is_preloading: bool
    ) -> int:
        bundle = held.bundle
        for other in self._owned_bundles.overlapping(bundle):
            raise BundleMoving(f"{bundle}: {other.bundle} is held here ({other.state})")
        if self._releaser.is_deleting(paths.ownership(bundle)):
            raise BundleMoving(f"{bundle}: the node of an earlier release is still to be deleted")
        self._owned_bundles.add(held)
        with child_span("change of owner", bundle=str(bundle), owner=self._broker_id) as span:
            token = await self._own(held, guards, epoch, is_preloading=is_preloading)
            if span is not None:
                span.set("token", token)
        return token

    async def _own(
        self, held: OwnedBundle, guards: Sequence[Operation], epoch: int, *, is_preloading: bool
    ) -> int:
        bundle = held.bundle
        try:
            await self._owners.sync(bundle)
            lock = held.hold(await self.lock(bundle, guards, partial(self._judge, bundle, epoch)))
        except Exception:
            # An unanswered attempt may have created the node, and no lookup would delete it.
            self._releaser.give_up_unconfirmed(held)
            raise
        except BaseException:
            # Cancelled with its session; the next session looks for such nodes.
            self._owned_bundles.discard(held)
            raise
        await self._serve(held, lock, epoch, is_preloading=is_preloading)
        log.info("acquired %s, token %d", bundle, lock.token)
        return lock.token

    async def _judge(self, bundle: Bundle, epoch: int) -> None:
        """Check right before the create that the bundle is free for this broker (I7).

        Raises:
            BundleBusy, BundleReclaimable: it has an owner, or its owner may re-acquire it.
            AuthorityLost: the lease has run out, or the session ended meanwhile.
        """
        try:
            await self._owners.check_free(bundle, self._broker_id)
        except CorruptRecord as error:
            raise BundleBusy(str(bundle), f"an unreadable node ({error})") from error
        self._watcher.check_epoch(epoch)

    async def lock(
        self,
        bundle: Bundle,
        guards: Sequence[Operation],
        judge: Callable[[], Awaitable[None]],
        stale_limit_s: float = _STALE_LIMIT_S,
    ) -> Lock:
        """Create the ephemeral node while the ring still has the bundle (I5).

        ``judge`` is called right before each attempt. A node of an earlier session of this broker
        is waited for, up to ``stale_limit_s``.
        """
        path = paths.ownership(bundle)
        for _ in range(_RING_RETRIES):
            snapshot = await self._namespaces.ring_snapshot(bundle.namespace)
            if bundle not in snapshot.ring:
                raise BundleGone(f"{bundle} is not a bundle of its namespace")
            checks = snapshot.checks
            try:
                return await self._locks.acquire(
                    path, self.record, self.on_lost, [*checks, *guards], judge
                )
            except MultiFailed as error:
                if error.index >= len(checks):
                    raise Fenced(f"{bundle}: {error}") from error
                self._namespaces.forget(bundle.namespace)
            except LockBusy as busy:
                await self._wait_for_holder(bundle, busy, stale_limit_s)
            finally:
                self._owners.forget(bundle)
        raise BundleMoving(f"{bundle}: its ring or its owner changes too often")

    async def _wait_for_holder(self, bundle: Bundle, busy: LockBusy, limit_s: float) -> None:
        """Wait for the node of an earlier session of this broker; raise if another owns it."""
        node = busy.node
        if busy.claim is Claim.MY_EARLIER_SESSION:
            log.info("%s is of an earlier session: waiting for that session to end", node.path)
            if await self._locks.wait_deleted(node, limit_s):
                return
            raise StaleOwner(f"{bundle}: a node of an earlier session still exists")
        try:
            owner = NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
        except CorruptRecord as error:
            owner = f"an unreadable node ({error})"
        raise BundleBusy(str(bundle), owner)

    async def _serve(
        self, held: OwnedBundle, lock: Lock, epoch: int, *, is_preloading: bool
    ) -> None:
        """Let the data plane load the bundle; lookups get an answer only after that."""
        try:
            with child_span("load", bundle=str(held.bundle)):
                await self._dataplane.load(held.bundle, lock.token, is_preloading=is_preloading)
            # During the load the session may have ended, or the node may have been deleted.
            self._watcher.check_epoch(epoch)
            if held.lock is not lock:
                raise BundleMoving(f"{held.bundle} was taken away while it was loaded")
        except (DataPlaneError, AuthorityLost, BundleMoving):
            self._releaser.give_up(held, OwnershipCause.DATA_PLANE)
            raise
        held.advance(BundleState.OWNED)
