"""All policies that operators set, as one value."""

import random
from dataclasses import dataclass

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.policy_store import PolicyFlag, PolicyStore
from broker_ctl.broker.policies.anti_affinity import AntiAffinity
from broker_ctl.broker.policies.clusters import Clusters
from broker_ctl.broker.policies.failure_domains import FailureDomains
from broker_ctl.broker.policies.isolation_policies import IsolationPolicies
from broker_ctl.broker.policies.namespace_policies import NamespacePolicies
from broker_ctl.broker.policies.resource_quotas import ResourceQuotas
from broker_ctl.broker.policies.tenants import Tenants
from broker_ctl.clock import Clock
from broker_ctl.store.interface import MetadataStore


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
