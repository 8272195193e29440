"""Grants of tenants and namespaces, from caches that survive outages of the configuration store."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.broker.policies.validation import require_name
from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import CorruptRecord
from broker_ctl.security.authorization.grants import Grants, NamespaceGrants
from broker_ctl.security.authorization.resources import Resource
from broker_ctl.store import paths
from broker_ctl.store.caches.entries import Entry
from broker_ctl.store.caches.last_read import LastRead
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.auth_policies import decode_grants
from broker_ctl.store.records.tenants import TenantInfo

_NONE = Grants()


def _decode_tenant(node: Versioned) -> frozenset[str]:
    return frozenset(TenantInfo.decode(node.path, node.data).admin_roles)


def _decode_namespace(node: Versioned) -> NamespaceGrants:
    return decode_grants(node.path, node.data)


@dataclass(frozen=True, slots=True)
class _Recalled(Grants):
    """The grants of a namespace, and the entries that they were made of."""

    tenant_path: str = ""
    admins: Entry[frozenset[str] | None] | None = None
    policies_path: str = ""
    found: Entry[NamespaceGrants | None] | None = None


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
