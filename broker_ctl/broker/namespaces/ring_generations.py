"""Generations of a namespace's ring: a number that never restarts.

A local-policies node that is deleted and created again begins at version 0, as its predecessor did;
its version alone does not distinguish acquisitions before and after that. So every transaction that
creates or deletes local policies also writes a persistent node beside them, whose version counts
all rings that the namespace ever had. A transaction that depends on a ring checks both versions.
"""

import logging
import random
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
    """A generation as it was read.

    Attributes:
        version: version of its node; 0: no ring was created or deleted since the node was created.
        written_zxid: the last transaction that wrote the node.
    """

    path: str
    version: int
    written_zxid: int

    @property
    def check(self) -> Check:
        """A check that fails once a ring was created or deleted."""
        return Check(self.path, self.version)

    @property
    def bump(self) -> SetData:
        """The write for each transaction that creates or deletes a ring."""
        return SetData(self.path, RING_GENERATION, self.version)

    def has(self, ring: Stat) -> bool:
        """Return whether local policies belong to this generation, according to their stat.

        Those of an earlier generation were created before its node was last written. So were those
        of a namespace that is older than this mechanism; its generations are not counted yet.
        """
        return ring.czxid >= self.written_zxid or self.version == 0


def _decode(node: Versioned) -> RingGeneration:
    return RingGeneration(node.path, node.stat.version, node.stat.mzxid)


class RingGenerations:
    """The generations of all namespaces; creates missing nodes."""

    def __init__(
        self, store: MetadataStore, clock: Clock, cache_rules: CacheRules, *, rng: random.Random
    ) -> None:
        self._store = store
        self.cache = ValueCache(store, (paths.RINGS,), _decode, clock, cache_rules, rng=rng)

    async def of(self, namespace: Namespace) -> RingGeneration:
        """The generation, from the cache."""
        path = paths.ring_generation(namespace)
        while (found := await self.cache.get(path)) is None:
            with self.writing(namespace):
                try:
                    await self._store.create(path, RING_GENERATION, make_parents=True)
                except NodeExists:
                    log.debug("%s: another broker was quicker", path)
        return found

    async def read(self, namespaces: Iterable[Namespace]) -> Mapping[Namespace, RingGeneration]:
        """Read generations from the store in one request."""
        wanted = list(namespaces)
        nodes = await self._store.get_many([paths.ring_generation(name) for name in wanted])
        return {
            name: await self.of(name) if node is None else _decode(node)
            for name, node in zip(wanted, nodes, strict=True)
        }

    def writing(self, namespace: Namespace) -> AbstractContextManager[None]:
        """The scope of an own write: later reads bypass the cached value."""
        return self.cache.writing(paths.ring_generation(namespace))

    def forget(self, namespace: Namespace) -> None:
        """Evict a cached generation that turned out to be stale."""
        self.cache.forget(paths.ring_generation(namespace))
