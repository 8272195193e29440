"""All policies that operators set, those of namespaces and quotas of bundles among them."""

import logging
import math
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.policy_store import PolicyFlag, PolicyNodes, PolicyStore
from broker_ctl.broker.policies.constraints import AntiAffinity, FailureDomains, IsolationPolicies
from broker_ctl.broker.policies.tenants import PEERS, Clusters, Tenants
from broker_ctl.clock import Clock
from broker_ctl.core.model.load import DEFAULT_QUOTA, MOST_QUOTA, ResourceQuota
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import (
    ClusterNotAllowed,
    InvalidName,
    InvalidPolicy,
    NamespaceMissing,
    PolicyConflict,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import PoliciesRecord
from broker_ctl.store.records.simple import decode_quota, encode_quota

log = logging.getLogger(__name__)

# Policies of a namespace besides its ring (docs: pulsar-hash, pulsar-http-lookup).
#
# Fields for the broker processes are stored unchanged; broker-ctl only interprets the clusters of
# a namespace.


def _decode(node: Versioned) -> PoliciesRecord:
    return PoliciesRecord.decode(node.path, node.data)


def _require_existing(namespace: Namespace, found: PoliciesRecord | None) -> PoliciesRecord:
    """Return the policies; raises if they do not exist or are marked as deleted."""
    if found is None or found.is_deleted:
        raise NamespaceMissing(f"namespace {namespace} does not exist")
    return found


class NamespacePolicies:
    """Policies by namespace; a node for each namespace also holds the ring."""

    def __init__(self, policy_store: PolicyStore, tenants: Tenants, clusters: Clusters) -> None:
        self._tenants = tenants
        self._clusters = clusters
        self._nodes = PolicyNodes(policy_store, paths.POLICIES, _decode, PoliciesRecord.encode)

    async def find(self, namespace: Namespace) -> PoliciesRecord:
        """The policies as stored.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return _require_existing(namespace, await self._nodes.get(paths.policies(namespace)))

    async def permissions(self, namespace: Namespace) -> Mapping[str, Any]:
        """Permissions by role, which the broker process enforces.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        stored = Fields(paths.policies(namespace), (await self.find(namespace)).others)
        return stored.child("auth_policies").child("namespace_auth").values

    async def set_replication_clusters(
        self, namespace: Namespace, names: Collection[str], *, is_dry_run: bool = False
    ) -> None:
        """Set the clusters of a namespace; a dry run only checks that this is possible.

        Raises:
            NamespaceMissing: there is no such namespace.
            InvalidName: no cluster is named.
            ClusterNotAllowed: a cluster does not exist, or the tenant may not use it.
            PolicyConflict: two of the clusters are peers of each other.
            PoliciesReadOnly: policies are read-only.
        """
        await self.find(namespace)
        if not names:
            raise InvalidName("ClusterIds should not be null or empty")
        known = await self._clusters.names()
        for name in names:
            if name not in known:
                raise ClusterNotAllowed(f"Invalid cluster id: {name}")
            peers = (await self._clusters.find(name)).get(PEERS) or ()
            shared = sorted(set(peers) & set(names))
            if shared:
                raise PolicyConflict(f"{name} and its peer {shared[0]} cannot both be named")
        await self._tenants.require_allowed(namespace.tenant, names)

        await self._nodes.change(
            paths.policies(namespace),
            lambda found: _require_existing(namespace, found).in_clusters(names),
            is_dry_run=is_dry_run,
        )
        if not is_dry_run:
            log.info("%s lives in %s", namespace, ", ".join(sorted(names)))


# Resource quotas, which operators can read and set (docs: pulsar-load-data, pulsar-admin-api).
#
# A quota is the assumed load of a bundle without measurements; the Simple manager also places by
# it. A bundle's own quota takes precedence over the default quota, which takes precedence over
# Pulsar's initial one.


# By Pulsar's JSON field. Memory in MiB, all others in messages or bytes per second.
_AMOUNTS: Final = {
    "msgRateIn": "msg_rate_in",
    "msgRateOut": "msg_rate_out",
    "bandwidthIn": "bandwidth_in_bytes",
    "bandwidthOut": "bandwidth_out_bytes",
    "memory": "memory_mib",
}
_DYNAMIC: Final = "dynamic"


def parse_quota(body: Mapping[str, Any]) -> ResourceQuota:
    """Parse a quota in Pulsar's JSON; all amounts are required, ``dynamic`` defaults to true.

    Raises:
        InvalidPolicy: which field is wrong, and what is allowed.
    """
    unknown = sorted(set(body) - {*_AMOUNTS, _DYNAMIC})
    if unknown:
        allowed = ", ".join((*_AMOUNTS, _DYNAMIC))
        raise InvalidPolicy(f"{unknown[0][:64]!r} is not a field of a quota; allowed are {allowed}")
    is_dynamic = body.get(_DYNAMIC, True)
    if not isinstance(is_dynamic, bool):
        raise InvalidPolicy(f"{_DYNAMIC} is true or false")
    return ResourceQuota(
        **{field: _amount(name, body.get(name)) for name, field in _AMOUNTS.items()},
        is_dynamic=is_dynamic,
    )


def _amount(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= MOST_QUOTA:
        raise InvalidPolicy(f"{name} must be a number from 0 to {MOST_QUOTA:.0f}")
    return float(value)


def _decode_of_resource_quotas(node: Versioned) -> ResourceQuota:
    return decode_quota(node.path, node.data)


class ResourceQuotas:
    """Quotas by bundle; None as the bundle means the default quota."""

    def __init__(self, store: MetadataStore, policy_store: PolicyStore) -> None:
        # Quotas are stored beside the load, not in the configuration store; its read-only flag
        # applies.
        own = replace(policy_store, store=store)
        self._nodes = PolicyNodes(
            own, paths.RESOURCE_QUOTAS, _decode_of_resource_quotas, encode_quota
        )

    async def payload(self, bundle: Bundle | None = None) -> bytes:
        """The effective quota of a bundle, in Pulsar's JSON.

        Raises:
            CorruptRecord: the node does not decode.
        """
        for path in _paths_of(bundle):
            quota = await self._nodes.get(path)
            if quota is not None:
                return encode_quota(quota)
        return encode_quota(DEFAULT_QUOTA) if bundle is None else await self.payload()

    async def set(self, quota: ResourceQuota, bundle: Bundle | None = None) -> None:
        """Set the quota of a bundle, or the default quota.

        Raises:
            PoliciesReadOnly: policies are read-only.
        """
        await self._nodes.change(_paths_of(bundle)[0], lambda _: quota)
        log.info("the resource quota of %s was set", bundle or "all bundles without their own")

    async def delete(self, bundle: Bundle | None = None) -> None:
        """Delete a bundle's quota, or the default quota.

        Raises:
            PoliciesReadOnly: policies are read-only.
        """
        for path in _paths_of(bundle):
            await self._nodes.delete(path)
        log.info("the resource quota of %s was reset", bundle or "all bundles without their own")


def _paths_of(bundle: Bundle | None) -> tuple[str, ...]:
    """The path of a quota, then the one that Pulsar 2.9 uses."""
    if bundle is None:
        return (paths.DEFAULT_RESOURCE_QUOTA,)
    return paths.resource_quota(bundle), paths.old_resource_quota(bundle)


# All policies that operators set, as one value.


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything that changes policies, and the flag that makes them read-only."""

    isolation: IsolationPolicies
    domains: FailureDomains
    groups: AntiAffinity
    quotas: ResourceQuotas
    clusters: Clusters
    tenants: Tenants
    namespaces: NamespacePolicies
    flag: PolicyFlag

    @classmethod
    def of(
        cls,
        store: MetadataStore,
        configuration_store: MetadataStore,
        *,
        cluster: str,
        namespaces: Namespaces,
        clock: Clock,
        rng: random.Random,
    ) -> "Policies":
        """Build them for one cluster."""
        policy_store = PolicyStore.of(configuration_store, clock, rng)
        clusters = Clusters(policy_store, cluster)
        tenants = Tenants(policy_store, clusters, namespaces)
        return cls(
            IsolationPolicies(policy_store, cluster, namespaces),
            FailureDomains(policy_store, cluster),
            AntiAffinity(store, policy_store, namespaces),
            ResourceQuotas(store, policy_store),
            clusters,
            tenants,
            NamespacePolicies(policy_store, tenants, clusters),
            policy_store.flag,
        )
