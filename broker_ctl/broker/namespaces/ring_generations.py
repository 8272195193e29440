"""Which ring of a namespace it is: a number that never starts again.

A local-policies node that is deleted and made anew begins at version 0, as the one before it did:
its version alone does not tell an acquisition of before from one of after. So every transaction
that makes or deletes local policies also writes a persistent node beside them, whose version
counts on over all rings that the namespace ever had. Whatever depends on a ring checks both.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import NodeExists
from broker_ctl.store import paths
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import Check, MetadataStore, SetData, Stat, Versioned
from broker_ctl.store.records.broker_ctl import RING_GENERATION

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RingGeneration:
    """As it was read.

    Attributes:
        version: of its node; 0: since the node was made no ring was made or deleted.
        written_zxid: the transaction that wrote it last.
    """

    path: str
    version: int
    written_zxid: int

    @property
    def check(self) -> Check:
        """Fails once a ring was made or deleted."""
        return Check(self.path, self.version)

    @property
    def bump(self) -> SetData:
        """Stands in each transaction that makes or deletes a ring."""
        return SetData(self.path, RING_GENERATION, self.version)

    def has(self, ring: Stat) -> bool:
        """Whether local policies are of this generation, as far as their stat tells.

        Those of an earlier one were made before it was last written. So were those of a namespace
        that is older than this mechanism: nothing has been counted there yet.
        """
        return ring.czxid >= self.written_zxid or self.version == 0


def _decode(node: Versioned) -> RingGeneration:
    return RingGeneration(node.path, node.stat.version, node.stat.mzxid)


class RingGenerations:
    """Those of all namespaces; the node is made where it is absent."""

    def __init__(self, store: MetadataStore, clock: Clock, cache_rules: CacheRules) -> None:
        self._store = store
        self.cache = ValueCache(store, (paths.RINGS,), _decode, clock, cache_rules)

    async def of(self, namespace: Namespace) -> RingGeneration:
        """The generation, as far as this broker has heard."""
        path = paths.ring_generation(namespace)
        while (found := await self.cache.get(path)) is None:
            with self.writing(namespace):
                try:
                    await self._store.create(path, RING_GENERATION, make_parents=True)
                except NodeExists:
                    log.debug("%s: another broker was quicker", path)
        return found

    async def read(self, namespaces: Iterable[Namespace]) -> Mapping[Namespace, RingGeneration]:
        """Past the cache, in one go."""
        wanted = list(namespaces)
        nodes = await self._store.get_many([paths.ring_generation(name) for name in wanted])
        return {
            name: await self.of(name) if node is None else _decode(node)
            for name, node in zip(wanted, nodes, strict=True)
        }

    def writing(self, namespace: Namespace) -> AbstractContextManager[None]:
        """Around an own write: later reads bypass the cached value."""
        return self.cache.writing(paths.ring_generation(namespace))

    def forget(self, namespace: Namespace) -> None:
        """Read the generation again: the cached one turned out to be stale."""
        self.cache.forget(paths.ring_generation(namespace))
