"""Who owns which bundle, as far as this broker has looked, and who owned it until just now.

An expiry by itself moves nothing (I7): for a grace period after an owner's node vanished without
a release, only that owner may take the bundle again.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.registry import Registry
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.bundle import Bundle
from broker_ctl.errors import BundleReclaimable
from broker_ctl.store import paths
from broker_ctl.store.cache import ValueCache
from broker_ctl.store.interface import Change, MetadataStore, Notification, Versioned
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

_MAX_VANISHED: Final = 100_000


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """An owner node: whose it is, and the identity of the node."""

    urls: BrokerUrls
    token: int
    session_id: int


@dataclass(frozen=True, slots=True)
class _Vanished:
    owner: str
    zxid: int
    at_s: float


def _decode(node: Versioned) -> OwnerRecord:
    data = NamespaceEphemeralData.decode(node.path, node.data)
    return OwnerRecord(data.urls, node.stat.czxid, node.stat.ephemeral_owner)


class Owners:
    """Owner nodes of all brokers."""

    def __init__(
        self,
        store: MetadataStore,
        registry: Registry,
        clock: Clock,
        reclaim_grace_s: float,
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._grace_s = reclaim_grace_s
        self.cache = ValueCache(store, paths.OWNERSHIP, _decode)
        self._vanished: OrderedDict[str, _Vanished] = OrderedDict()
        self._stop_watching: Callable[[], None] | None = None

    async def start(self) -> None:
        """Begin to follow the owner nodes."""
        # Before the cache: who owned a node is still in there when its deletion is told.
        self._stop_watching = await self._store.watch(paths.OWNERSHIP, self._notified)
        await self.cache.start()

    def close(self) -> None:
        """Stop following."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        self.cache.close()

    async def owner_of(self, bundle: Bundle) -> OwnerRecord | None:
        """Who stands in the store.

        Raises:
            CorruptRecord: a node that does not decode; it is somebody's all the same.
        """
        return await self.cache.get(paths.ownership(bundle))

    def forget(self, bundle: Bundle) -> None:
        """After an own write to the node."""
        self.cache.forget(paths.ownership(bundle))

    async def check_reclaim(self, bundle: Bundle, broker_id: str) -> None:
        """Before taking a bundle that nobody owns.

        Raises:
            BundleReclaimable: its owner's session expired so recently that only it may return.
        """
        path = paths.ownership(bundle)
        vanished = self._vanished.get(path)
        if vanished is None or vanished.owner == broker_id:
            return
        left_s = vanished.at_s + self._grace_s - self._clock.now_s()
        if left_s > 0 and not await self._registry.was_standing_at(vanished.owner, vanished.zxid):
            raise BundleReclaimable(
                f"{bundle}: the session of {vanished.owner} ended; "
                f"for {left_s:.1f} s only that broker may take it again",
            )
        self._vanished.pop(path, None)

    def _notified(self, notification: Notification) -> None:
        path = notification.path
        if notification.change is Change.CREATED:
            self._vanished.pop(path, None)
        elif notification.change is Change.DELETED and (record := self.cache.peek(path)):
            now_s = self._clock.now_s()
            owner = record.urls.broker_id
            self._vanished[path] = _Vanished(owner, notification.zxid, now_s)
            self._vanished.move_to_end(path)
            self._prune(now_s)

    def _prune(self, now_s: float) -> None:
        while self._vanished:
            path, oldest = next(iter(self._vanished.items()))
            if now_s - oldest.at_s < self._grace_s and len(self._vanished) <= _MAX_VANISHED:
                return
            del self._vanished[path]
