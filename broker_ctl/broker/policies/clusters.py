"""The known clusters, this one among them (docs: pulsar-http-lookup).

In Pulsar an operator must create each cluster before its first broker starts. broker-ctl does not
need that: the own cluster always exists, with empty data until an operator sets some.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.validation import require_name
from broker_ctl.codec import encode
from broker_ctl.errors import (
    ClusterExists,
    ClusterInUse,
    ClusterMissing,
    InvalidName,
    NoNode,
    NotEmpty,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.clusters import ClusterRecord
from broker_ctl.store.records.constraints import NamespaceIsolationPolicies
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.tenants import TenantInfo

log = logging.getLogger(__name__)

PEERS: Final = "peerClusterNames"
# Pulsar's node for "all clusters" of V1 namespaces, beside the nodes of clusters.
_GLOBAL: Final = "global"
_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _decode(node: Versioned) -> Mapping[str, Any]:
    """All fields of a node; unknown ones are kept."""
    ClusterRecord.decode(node.path, node.data)
    return Fields.of(node.path, node.data or b"{}").values


class Clusters:
    """Pulsar's ClusterData by cluster name."""

    def __init__(self, policy_store: PolicyStore, own: str) -> None:
        self._policy_store = policy_store
        self._store = policy_store.store
        self._own = own
        self._nodes = PolicyNodes(policy_store, paths.CLUSTERS, _decode, encode)

    async def names(self) -> list[str]:
        """Names of all clusters, sorted."""
        found = {self._own, *await self._store.children(paths.CLUSTERS)}
        return sorted(found - {_GLOBAL})

    async def find(self, name: str) -> Mapping[str, Any]:
        """The data of a cluster.

        Raises:
            ClusterMissing: there is no such cluster.
        """
        require_name("cluster", name)
        found = await self._nodes.get(paths.cluster(name))
        if found is None and name != self._own:
            raise _missing(name)
        return found or {}

    async def create(self, name: str, data: Mapping[str, Any], *, is_dry_run: bool = False) -> None:
        """Create a cluster; an empty node that only exists as a parent does not count as one.

        A dry run, here and below, checks whether it is possible, and writes nothing.

        Raises:
            InvalidName: the name is not valid.
            ClusterExists: it exists already.
            PoliciesReadOnly: policies are read-only.
        """
        require_name("cluster", name)

        def change(found: Mapping[str, Any] | None) -> Mapping[str, Any]:
            if found:
                raise ClusterExists(f"Cluster already exists: {name}")
            return without_nulls(data)

        await self._nodes.change(paths.cluster(name), change, is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("cluster %s was created", name)

    async def update(self, name: str, data: Mapping[str, Any], *, is_dry_run: bool = False) -> None:
        """Replace the data of a cluster.

        Raises:
            ClusterMissing: there is no such cluster.
            PoliciesReadOnly: policies are read-only.
        """
        await self.find(name)
        await self._change(name, lambda _: without_nulls(data), is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("cluster %s was updated", name)

    async def set_peers(
        self, name: str, peers: Collection[str], *, is_dry_run: bool = False
    ) -> None:
        """Set the peer clusters, to which clients may be redirected.

        Raises:
            ClusterMissing: there is no such cluster.
            InvalidName: a peer does not exist, or is the cluster itself.
            PoliciesReadOnly: policies are read-only.
        """
        await self.find(name)
        known = await self.names()
        for peer in peers:
            if peer.lower() == name.lower():
                raise InvalidName(f"{name} itself can't be part of peer-list")
            if peer not in known:
                raise InvalidName(f"Peer cluster {peer} does not exist")
        named = list(dict.fromkeys(peers))
        await self._change(name, lambda found: {**found, PEERS: named}, is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("cluster %s: peers are %s", name, ", ".join(named) or "none")

    async def _change(self, name: str, change: _Change, *, is_dry_run: bool) -> None:
        def existing(found: Mapping[str, Any] | None) -> Mapping[str, Any]:
            if found is None and name != self._own:
                raise _missing(name)
            return change(found or {})

        await self._nodes.change(paths.cluster(name), existing, is_dry_run=is_dry_run)

    async def delete(self, name: str, *, is_dry_run: bool = False) -> None:
        """Delete a cluster with its failure domains.

        Raises:
            ClusterMissing: there is no such cluster.
            ClusterInUse: tenants may use it, it has isolation policies, or it is this one.
            PoliciesReadOnly: policies are read-only.
        """
        await self._policy_store.flag.require_writable()
        await self.find(name)
        await self._require_unused(name)
        if is_dry_run:
            return
        domains = paths.failure_domains(name)
        inner = [paths.failure_domain(name, one) for one in await self._store.children(domains)]
        for path in (*inner, domains, paths.isolation_policies(name), paths.cluster(name)):
            try:
                await self._store.delete(path)
            except NoNode:
                continue
            except NotEmpty as error:
                raise ClusterInUse(f"Cluster not empty: {path} got children meanwhile") from error
        log.info("cluster %s was deleted", name)

    async def _require_unused(self, name: str) -> None:
        if name == self._own:
            raise ClusterInUse(f"Cluster not empty: {name} is the cluster of this broker")
        for tenant in await self._store.children(paths.POLICIES):
            node = await self._store.get(paths.tenant(tenant))
            if node and name in TenantInfo.decode(node.path, node.data).allowed_clusters:
                raise ClusterInUse(f"Cluster not empty: tenant {tenant} may use {name}")
        node = await self._store.get(paths.isolation_policies(name))
        if node and NamespaceIsolationPolicies.decode(node.path, node.data).policies:
            raise ClusterInUse(f"Cluster not empty: {name} has isolation policies")


def _missing(name: str) -> ClusterMissing:
    return ClusterMissing(f"Cluster does not exist: {name}")
