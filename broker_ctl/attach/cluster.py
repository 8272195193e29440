"""Read access to a cluster run by Pulsar; nothing of it is ever written.

`broker.namespaces` creates missing local policies of a namespace, as a broker does. An attached
process must not: it assumes the ring that a broker would create.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import NamespaceMissing
from broker_ctl.store import paths
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.ownership import NamespaceEphemeralData, OwnerNode
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord
from broker_ctl.store.watched_cache import CacheRules, WatchedCache

# Version of a node that does not exist.
_UNWRITTEN: Final = -1


def _decode_owner(node: Versioned) -> OwnerNode:
    return OwnerNode(NamespaceEphemeralData.decode(node.path, node.data).urls, node.stat.czxid)


def decode_ring(node: Versioned) -> Ring:
    """The ring in a local-policies node.

    Raises:
        CorruptRecord: it does not decode.
    """
    namespace = paths.local_policies_namespace(node.path)
    assert namespace is not None
    policies = LocalPolicies.decode(node.path, node.data)
    return policies.ring(namespace, node.stat.version)


class ClusterNodes:
    """Rings and owner nodes, remembered until they change."""

    def __init__(
        self,
        store: MetadataStore,
        configuration_store: MetadataStore,
        clock: Clock,
        cache_rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        self._configuration_store = configuration_store
        self.rings = ValueCache(
            store, (paths.LOCAL_POLICIES,), decode_ring, clock, cache_rules, rng=rng
        )
        self.owners = ValueCache(
            store, (paths.OWNERSHIP,), _decode_owner, clock, cache_rules, rng=rng
        )

    @property
    def caches(self) -> Mapping[str, WatchedCache[Any]]:
        """By the names under which they are measured."""
        return {"owners": self.owners, "local-policies": self.rings}

    async def start(self) -> None:
        """Start watching the nodes."""
        await self.rings.start()
        await self.owners.start()

    async def close(self) -> None:
        """Stop watching."""
        await self.rings.close()
        await self.owners.close()

    async def ring_of(self, namespace: Namespace) -> Ring:
        """A namespace's ring.

        Raises:
            NamespaceMissing: neither local policies nor policies exist.
            CorruptRecord: it does not decode.
        """
        ring = await self.rings.get(paths.local_policies(namespace))
        if ring is not None:
            return ring
        node = await self._configuration_store.get(paths.policies(namespace))
        if node is None:
            raise NamespaceMissing(f"namespace {namespace} does not exist")
        boundaries = PoliciesRecord.decode(node.path, node.data).boundaries
        local = LocalPolicies() if boundaries is None else LocalPolicies(boundaries)
        return local.ring(namespace, _UNWRITTEN)

    async def owner_of(self, bundle: Bundle) -> OwnerNode | None:
        """A bundle's owner node.

        Raises:
            CorruptRecord: the node does not decode.
        """
        return await self.owners.get(paths.ownership(bundle))
