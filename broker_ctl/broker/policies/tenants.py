"""Tenants and clusters: who owns namespaces, where they live (docs: pulsar-http-lookup)."""

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.broker.namespaces.namespaces import Namespaces, no_tenant
from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.constraints import require_name
from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import (
    ClusterExists,
    ClusterInUse,
    ClusterMissing,
    ClusterNotAllowed,
    CorruptRecord,
    InvalidName,
    NodeExists,
    NoNode,
    NotEmpty,
    PolicyConflict,
    TenantExists,
    TenantMissing,
)
from broker_ctl.security.authorization import Grants, NamespaceGrants, Resource
from broker_ctl.store import paths
from broker_ctl.store.cached_values import LastRead, ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.constraints import NamespaceIsolationPolicies
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.policies import (
    ClusterRecord,
    PoliciesRecord,
    TenantInfo,
    decode_grants,
)
from broker_ctl.store.watched_cache import CacheEntry, CacheRules

log = logging.getLogger(__name__)

# The known clusters, this one among them (docs: pulsar-http-lookup).
#
# In Pulsar an operator must create each cluster before its first broker starts. broker-ctl does
# not need that: the own cluster always exists, with empty data until an operator sets some.


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


# Tenants: owners of namespaces, with the clusters that they may use (docs: pulsar-admin-api).


__all__ = ["TenantInfo", "Tenants"]


def _decode_of_tenants(node: Versioned) -> TenantInfo:
    return TenantInfo.decode(node.path, node.data)


def _has_namespaces(name: str) -> PolicyConflict:
    return PolicyConflict(f"The tenant still has active namespaces: {name}")


class Tenants:
    """The tenants; each is a node whose children are the policies of its namespaces."""

    def __init__(
        self, policy_store: PolicyStore, clusters: Clusters, namespaces: Namespaces
    ) -> None:
        self._policy_store = policy_store
        self._store = policy_store.store
        self._clusters = clusters
        self._namespaces = namespaces
        self._nodes = PolicyNodes(
            policy_store, paths.POLICIES, _decode_of_tenants, TenantInfo.encode
        )

    async def names(self) -> list[str]:
        """Names of all tenants, sorted."""
        return sorted(await self._namespaces.tenants())

    async def find(self, name: str) -> TenantInfo:
        """The data of a tenant.

        Raises:
            TenantMissing: there is no such tenant.
        """
        require_name("tenant", name)
        found = await self._nodes.get(paths.tenant(name))
        if found is None:
            raise TenantMissing(no_tenant(name))
        return found

    async def require_allowed(self, name: str, clusters: Iterable[str]) -> None:
        """Raise if the tenant may not use one of the clusters.

        Raises:
            TenantMissing: there is no such tenant.
            ClusterNotAllowed: the tenant may not use the named cluster.
        """
        allowed = (await self.find(name)).allowed_clusters
        for cluster in clusters:
            if cluster not in allowed:
                raise ClusterNotAllowed(
                    f"Cluster [{cluster}] is not in the list of allowed clusters list "
                    f"for tenant [{name}]"
                )

    async def create(self, name: str, info: TenantInfo, *, is_dry_run: bool = False) -> None:
        """Create a tenant. A dry run, here and below, only checks that this is possible.

        Raises:
            InvalidName: the name or the data is not valid.
            TenantExists: it exists already.
            PoliciesReadOnly: policies are read-only.
        """
        require_name("tenant", name)
        await self._policy_store.flag.require_writable()
        await self._require_sense(info)
        if is_dry_run:
            if await self._store.exists(paths.tenant(name)) is not None:
                raise TenantExists(f"Tenant already exist: {name}")
            return
        try:
            await self._store.create(paths.tenant(name), info.encode(), make_parents=True)
        except NodeExists as error:
            raise TenantExists(f"Tenant already exist: {name}") from error
        log.info("tenant %s was created", name)

    async def update(self, name: str, info: TenantInfo, *, is_dry_run: bool = False) -> None:
        """Replace the data of a tenant.

        Raises:
            TenantMissing: there is no such tenant.
            InvalidName: the data is not valid.
            ClusterInUse: a namespace of the tenant is in a cluster that the tenant may no longer
                use.
            PoliciesReadOnly: policies are read-only.
        """
        await self._policy_store.flag.require_writable()
        old = await self.find(name)
        await self._require_sense(info)
        await self._require_left(name, set(old.allowed_clusters) - set(info.allowed_clusters))

        def change(found: TenantInfo | None) -> TenantInfo:
            if found is None:
                raise TenantMissing(no_tenant(name))
            return info

        await self._nodes.change(paths.tenant(name), change, is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("tenant %s was updated", name)

    async def delete(self, name: str, *, is_dry_run: bool = False) -> None:
        """Delete a tenant without namespaces.

        Raises:
            TenantMissing: there is no such tenant.
            PolicyConflict: it has namespaces.
            PoliciesReadOnly: policies are read-only.
        """
        require_name("tenant", name)
        await self._policy_store.flag.require_writable()
        if is_dry_run:
            stat = await self._store.exists(paths.tenant(name))
            if stat is None:
                raise TenantMissing(no_tenant(name))
            if stat.children_count:
                raise _has_namespaces(name)
            return
        try:
            await self._store.delete(paths.tenant(name))
        except NoNode as error:
            raise TenantMissing(no_tenant(name)) from error
        except NotEmpty as error:
            raise _has_namespaces(name) from error
        log.info("tenant %s was deleted", name)

    async def _require_sense(self, info: TenantInfo) -> None:
        if not info.allowed_clusters or not all(map(str.strip, info.allowed_clusters)):
            raise InvalidName("Clusters can not be empty: allowedClusters names at least one")
        unknown = sorted(set(info.allowed_clusters) - set(await self._clusters.names()))
        if unknown:
            raise InvalidName(f"Clusters do not exist: {', '.join(unknown)}")
        for role in info.admin_roles:
            if role != role.strip():
                raise InvalidName(f"adminRoles: {role!r} begins or ends with a blank")

    async def _require_left(self, name: str, clusters: set[str]) -> None:
        """Raise if the tenant has namespaces in clusters that it may no longer use."""
        namespaces = await self._namespaces.of_tenant(name) if clusters else []
        for node in await self._store.get_many([paths.policies(one) for one in namespaces]):
            if node is None:
                continue
            shared = clusters & set(
                PoliciesRecord.decode(node.path, node.data).replication_clusters
            )
            if shared:
                namespace = paths.policies_namespace(node.path)
                raise ClusterInUse(f"{namespace} lives in {min(shared)}: take it out there first")


# Grants of tenants and namespaces, from caches that survive outages of the configuration store.


_NONE = Grants()


def _decode_tenant(node: Versioned) -> frozenset[str]:
    return frozenset(TenantInfo.decode(node.path, node.data).admin_roles)


def _decode_namespace(node: Versioned) -> NamespaceGrants:
    return decode_grants(node.path, node.data)


@dataclass(frozen=True, slots=True)
class _Recalled(Grants):
    """The grants of a namespace, and the entries that they were made of."""

    tenant_path: str = ""
    admins: CacheEntry[frozenset[str] | None] | None = None
    policies_path: str = ""
    found: CacheEntry[NamespaceGrants | None] | None = None


class StoredGrants:
    """Reads what Pulsar stores of grants; from the store until `start`."""

    def __init__(
        self,
        configuration_store: MetadataStore,
        clock: Clock,
        rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        store, most, root = configuration_store, rules.most_entries, (paths.POLICIES,)
        tenants = ValueCache(store, root, _decode_tenant, clock, rules, rng=rng)
        namespaces = ValueCache(store, root, _decode_namespace, clock, rules, rng=rng)
        self._tenants = LastRead(tenants, store, most)
        self._namespaces = LastRead(namespaces, store, most)
        self._most = most
        self._recalled: dict[Namespace, _Recalled] = {}

    @property
    def caches(self) -> Mapping[str, ValueCache[frozenset[str]] | ValueCache[NamespaceGrants]]:
        """The caches by name, for metrics."""
        return {"tenant-admins": self._tenants.cache, "grants": self._namespaces.cache}

    async def start(self) -> None:
        """Watch the policies."""
        await self._tenants.start()
        await self._namespaces.start()

    async def close(self) -> None:
        """Stop the watches."""
        await self._tenants.close()
        await self._namespaces.close()

    def recall(self, resource: Resource) -> Grants | None:
        """As `of` for a namespace or a topic, from memory; None: `of` reads them."""
        namespace = resource.namespace
        if namespace is None:
            return None
        recalled = self._recalled.get(namespace)
        if recalled is not None and self.are_current(recalled):
            return recalled
        tenant_path, policies_path = paths.tenant(namespace.tenant), paths.policies(namespace)
        admins = self._tenants.recall(tenant_path)
        found = None if admins is None else self._namespaces.recall(policies_path)
        if admins is None or found is None:
            return None
        if admins.answer is None:
            return _NONE
        granted = found.answer or _NONE.namespace
        recalled = _Recalled(admins.answer, granted, tenant_path, admins, policies_path, found)
        if len(self._recalled) >= self._most:
            self._recalled.clear()
        self._recalled[namespace] = recalled
        return recalled

    def version(self) -> int:
        """Grows with each change of what `recall` answers from."""
        return self._tenants.cache.version + self._namespaces.cache.version

    def are_current(self, grants: Grants) -> bool:
        """Whether `recall` would return these again."""
        return (
            isinstance(grants, _Recalled)
            and self._tenants.cache.is_current(grants.tenant_path, grants.admins)
            and self._namespaces.cache.is_current(grants.policies_path, grants.found)
        )

    async def of(self, resource: Resource) -> Grants:
        """The grants at a resource; none where there is no such tenant, or its data is corrupt.

        While the configuration store is away, the last ones that were read.

        Raises:
            InvalidName: the tenant has no valid name.
            SessionError: they have not been read yet, and the store is away.
        """
        if not resource.tenant:
            return _NONE
        require_name("tenant", resource.tenant)
        try:
            admins = await self._tenants.get(paths.tenant(resource.tenant))
            if admins is None:
                return _NONE
            found = None
            if resource.namespace is not None:
                found = await self._namespaces.get(paths.policies(resource.namespace))
        except CorruptRecord:
            # The cache has logged it.
            return _NONE
        return Grants(admins, found or NamespaceGrants())
