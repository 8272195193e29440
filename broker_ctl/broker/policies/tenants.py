"""Tenants: owners of namespaces, with the clusters that they may use (docs: pulsar-admin-api)."""

import logging
from collections.abc import Iterable

from broker_ctl.broker.namespaces.namespaces import Namespaces, no_tenant
from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.clusters import Clusters
from broker_ctl.broker.policies.validation import require_name
from broker_ctl.errors import (
    ClusterInUse,
    ClusterNotAllowed,
    InvalidName,
    NodeExists,
    NoNode,
    NotEmpty,
    PolicyConflict,
    TenantExists,
    TenantMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.policies import PoliciesRecord
from broker_ctl.store.records.tenants import TenantInfo

__all__ = ["TenantInfo", "Tenants"]

log = logging.getLogger(__name__)


def _decode(node: Versioned) -> TenantInfo:
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
        self._nodes = PolicyNodes(policy_store, paths.POLICIES, _decode, TenantInfo.encode)

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
