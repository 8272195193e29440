"""Routing of lookups between clusters (docs: pulsar-http-lookup).

Policies name the clusters that serve a namespace. Clients of a namespace served elsewhere are
redirected to a peer cluster if one of those clusters is a peer, and get an error otherwise.
Policies that name no cluster mean this one: earlier releases wrote such policies.

Lookups check this first, and continue during an outage of the configuration store with the cached
values.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import ForeignNamespace
from broker_ctl.store import paths
from broker_ctl.store.caches.last_read import LastRead
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.clusters import ClusterRecord, replication_clusters


@dataclass(frozen=True, slots=True)
class _Clusters:
    """The clusters that a namespace's policies name; empty if they name none."""

    names: tuple[str, ...]


def _decode_clusters(node: Versioned) -> _Clusters:
    return _Clusters(replication_clusters(node.path, node.data))


def _decode_cluster(node: Versioned) -> ClusterRecord:
    return ClusterRecord.decode(node.path, node.data)


class ClusterRouter:
    """Finds peer clusters for namespaces of other clusters; reads the store until `start`."""

    def __init__(
        self,
        configuration_store: MetadataStore,
        cluster: str,
        clock: Clock,
        rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        store, most = configuration_store, rules.most_entries
        policies = ValueCache(store, (paths.POLICIES,), _decode_clusters, clock, rules, rng=rng)
        clusters = ValueCache(store, (paths.CLUSTERS,), _decode_cluster, clock, rules, rng=rng)
        self._policies = LastRead(policies, store, most)
        self._clusters = LastRead(clusters, store, most)

    @property
    def caches(self) -> Mapping[str, ValueCache[_Clusters] | ValueCache[ClusterRecord]]:
        """The caches by name, for metrics."""
        return {"namespace-clusters": self._policies.cache, "clusters": self._clusters.cache}

    async def start(self) -> None:
        """Watch policies and clusters."""
        await self._policies.start()
        await self._clusters.start()

    async def close(self) -> None:
        """Stop the watches."""
        await self._policies.close()
        await self._clusters.close()

    def is_known_local(self, namespace: Namespace) -> bool:
        """Whether memory says that this cluster serves a namespace; False also while unknown."""
        entry = self._policies.recall(paths.policies(namespace))
        return entry is not None and (entry.answer is None or self._is_among(entry.answer))

    async def peer_cluster_of(self, namespace: Namespace) -> BrokerUrls | None:
        """The addresses of the peer cluster that serves a namespace; None if this cluster does.

        Raises:
            ForeignNamespace: it is served elsewhere, but not by a peer.
            CorruptRecord: its policies do not decode.
        """
        found = await self._policies.get(paths.policies(namespace))
        if found is None or self._is_among(found):
            return None
        own = await self._clusters.get(paths.cluster(self._cluster))
        peers = () if own is None else own.peers
        for name in found.names:
            peer = await self._clusters.get(paths.cluster(name)) if name in peers else None
            if peer is not None:
                return peer.urls(name)
        raise ForeignNamespace(
            f"namespace {namespace} is served in {', '.join(found.names)}, not in {self._cluster}"
        )

    def _is_among(self, found: _Clusters) -> bool:
        return not found.names or self._cluster in found.names
