"""Owners of bundles as this broker has read them, and owner nodes that were deleted recently.

A session expiry alone moves no bundle (I7): when an owner node vanishes without a release, only its
former owner may acquire the bundle for a grace period. If this broker had not read that node, the
owner is found by the transaction: the same one deleted the owner's registration.
"""

import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.children_cache import SyncBarrier
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import AuthorityLost, BundleBusy, BundleReclaimable
from broker_ctl.store import paths
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import Change, MetadataStore, Notification, SessionEvent, Versioned
from broker_ctl.store.records.ownership import NamespaceEphemeralData, OwnerNode
from broker_ctl.store.watched_cache import CacheRules

log = logging.getLogger(__name__)

_MAX_VANISHED: Final = 100_000


@dataclass(frozen=True, slots=True)
class OwnerRecord(OwnerNode):
    """An owner node, with the identity of the node.

    ``is_disabled``: the owner is about to release the bundle, as Pulsar brokers mark it in the
    node.
    """

    session_id: int
    is_disabled: bool = False


@dataclass(frozen=True, slots=True)
class _Vanished:
    """An owner node that was deleted.

    Attributes:
        record: contents of this very node; None if they are not cached.
        named: the owner that this broker read last, if ``record`` is None. The bundle may have had
            other owners since, if events were missed.
    """

    record: OwnerRecord | None
    zxid: int
    at_s: float
    named: OwnerRecord | None

    @property
    def owner(self) -> str | None:
        """The owner, if known."""
        return None if self.record is None else self.record.urls.broker_id


def _decode(node: Versioned) -> OwnerRecord:
    data = NamespaceEphemeralData.decode(node.path, node.data)
    return OwnerRecord(data.urls, node.stat.czxid, node.stat.ephemeral_owner, data.is_disabled)


class Owners:
    """Owner nodes of all brokers, cached by watches."""

    def __init__(
        self,
        store: MetadataStore,
        registry: Registry,
        clock: Clock,
        reclaim_grace_s: float,
        cache_rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._rng = rng
        self._registry = registry
        self._clock = clock
        self._grace_s = reclaim_grace_s
        self.cache = ValueCache(store, (paths.OWNERSHIP,), _decode, clock, cache_rules, rng=rng)
        self._vanished: OrderedDict[str, _Vanished] = OrderedDict()
        # The newest deletion of a node that was not read here.
        self._unread: _Vanished | None = None
        # Owners that this broker returned, also after the cache has evicted them.
        self._named: OrderedDict[str, OwnerRecord] = OrderedDict()
        # Until then events may have been missed, and with them an expiry.
        self._blind_until_s = 0.0
        self._is_watching = False
        self._stops: list[Callable[[], None]] = []
        self._sync_barrier = SyncBarrier(store)

    async def start(self) -> None:
        """Watch the owner nodes, and start the cache."""
        # Before the cache, so that the cache still has the owner when the deletion is notified.
        self._stops = [
            self._store.listen(self._on_session_event),
            await set_watch(self._store, paths.OWNERSHIP, self._on_notification, rng=self._rng),
        ]
        await self.cache.start()
        self._is_watching = True

    async def close(self) -> None:
        """Stop the watches and the cache."""
        for stop in self._stops:
            stop()
        self._stops = []
        await self._sync_barrier.close()
        await self.cache.close()

    async def owner_of(self, bundle: Bundle) -> OwnerRecord | None:
        """Read the owner node of a bundle; None if it has none.

        Raises:
            AuthorityLost: this daemon is starting, and nothing watches the nodes yet. One that is
                read now may be deleted unnoticed, and this broker would have to wait out the grace
                of its owner before it acquires anything: too long where brokers restart in turn.
            CorruptRecord: the node does not decode; the bundle has an owner nevertheless.
        """
        if not self._is_watching:
            raise AuthorityLost(f"the daemon is starting: it does not watch the owner of {bundle}")
        path = paths.ownership(bundle)
        record = await self.cache.get(path)
        if record is not None:
            self._name(path, record)
        return record

    def recall(self, bundle: Bundle) -> OwnerRecord | None:
        """As `owner_of`, if the owner is in memory; None: it has to be read, or there is none."""
        path = paths.ownership(bundle)
        entry = self.cache.recall(path)
        record = None if entry is None else entry.answer
        if record is not None:
            self._name(path, record)
        return record

    def is_known_free(self, bundle: Bundle) -> bool:
        """Whether memory says that no broker owns a bundle, and that none may re-acquire it."""
        path = paths.ownership(bundle)
        entry = self.cache.recall(path)
        return (
            entry is not None
            and entry.answer is None
            and path not in self._vanished
            and self._clock.now_s() >= self._blind_until_s
        )

    def _name(self, path: str, record: OwnerRecord) -> None:
        """Keep the owner that a caller receives."""
        self._named[path] = record
        self._named.move_to_end(path)
        if len(self._named) > _MAX_VANISHED:
            self._named.popitem(last=False)

    def forget(self, bundle: Bundle) -> None:
        """Evict an owner node after this broker wrote it."""
        self.cache.forget(paths.ownership(bundle))

    async def sync(self, bundle: Bundle) -> None:
        """Wait until this broker has seen all that was committed until now.

        The server of this broker may lag behind the broker that redirected a client or sent a
        command here, which may already know that the owner's node is gone; an acquisition would
        then succeed. Notifications arrive before the answer to the sync.
        """
        path = paths.ownership(bundle)
        if path not in self._vanished:
            await self._sync_barrier.wait(path)

    async def check_free(self, bundle: Bundle, broker_id: str) -> None:
        """Check before an acquisition that no other broker owns the bundle or may re-acquire it.

        Raises:
            BundleBusy, BundleReclaimable: it is owned, or as `check_reclaim`.
            CorruptRecord: the node does not decode; the bundle has an owner nevertheless.
        """
        record = await self.owner_of(bundle)
        if record is not None and record.urls.broker_id != broker_id:
            # Acquiring the bundle as soon as this node goes would skip the check why it went.
            raise BundleBusy(str(bundle), record.urls.broker_id)
        await self.check_reclaim(bundle, broker_id)

    async def check_reclaim(self, bundle: Bundle, broker_id: str) -> None:
        """Check before the acquisition of a bundle without an owner.

        Raises:
            BundleReclaimable: its owner's session expired recently, and only that broker may
                re-acquire it.
        """
        path = paths.ownership(bundle)
        while (vanished := self._vanished.get(path)) is not None:
            if vanished.owner == broker_id:
                return
            left_s = vanished.at_s + self._grace_s - self._clock.now_s()
            owner = await self._expired_owner(vanished) if left_s > 0 else None
            if owner is not None and owner != broker_id:
                raise BundleReclaimable(
                    f"{bundle}: the session of {owner} ended; "
                    f"for {left_s:.1f} s only that broker may re-acquire it",
                )
            # During the await another broker may have owned the bundle, and lost it.
            if self._vanished.get(path) is vanished:
                del self._vanished[path]
                return
        blind_s = self._blind_until_s - self._clock.now_s()
        if blind_s > 0:
            raise BundleReclaimable(
                f"{bundle}: after an outage, its owner may re-acquire it for {blind_s:.1f} s",
            )

    async def _expired_owner(self, vanished: _Vanished) -> str | None:
        """The broker whose session end deleted the node; None if the node was released."""
        if (record := vanished.record) is None:
            if vanished.zxid <= 0:
                # Servers before 3.9 do not report the transaction of a deletion.
                return "an unknown broker"
            departed = await self._registry.departed_at(vanished.zxid)
            if departed is not None or (record := vanished.named) is None:
                return departed
        broker_id = record.urls.broker_id
        is_release = await self._registry.was_registered_at(
            broker_id, record.session_id, vanished.zxid
        )
        return None if is_release else broker_id

    def _on_session_event(self, event: SessionEvent) -> None:
        """Forget deletions after an outage: the events of that time are not replayed.

        This holds however short the outage was: a session can expire within it, and the cache that
        knew the owners is dropped with the connection. A server outage also ends the sessions of
        many brokers at once, and the first one back must not acquire bundles of the others.
        Deletions seen before the outage do not say who has owned a bundle since; deletions seen
        from now on name the last owner.
        """
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            self._vanished.clear()
            self._blind_until_s = self._clock.now_s() + self._grace_s

    def _on_notification(self, notification: Notification) -> None:
        path = notification.path
        if notification.change is Change.CREATED:
            self._vanished.pop(path, None)
            self._named.pop(path, None)
        elif notification.change is Change.DELETED:
            vanished = self._vanish(path, notification.zxid)
            self._vanished[path] = vanished
            self._vanished.move_to_end(path)
            self._prune(vanished.at_s)

    def _vanish(self, path: str, zxid: int) -> _Vanished:
        """What is known of a deletion.

        A broker that dies takes all its owner nodes along in one transaction, and most of them were
        never read here: they share what is known of them.
        """
        record, named = self.cache.peek(path), self._named.pop(path, None)
        is_unread = record is None and named is None
        if is_unread and zxid > 0 and self._unread is not None and self._unread.zxid == zxid:
            return self._unread
        vanished = _Vanished(record, zxid, self._clock.now_s(), named)
        if is_unread:
            self._unread = vanished
        return vanished

    def _prune(self, now_s: float) -> None:
        while self._vanished:
            path, oldest = next(iter(self._vanished.items()))
            if now_s - oldest.at_s < self._grace_s and len(self._vanished) <= _MAX_VANISHED:
                return
            del self._vanished[path]
