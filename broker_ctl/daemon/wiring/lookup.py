"""Lookups of a daemon: who decides on a bundle that nobody owns, and on what."""

from collections.abc import Callable

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.broker.lookup.authorised import LeaseGuard
from broker_ctl.broker.lookup.cluster_routing import ClusterRouter
from broker_ctl.broker.lookup.fallback_placement import FallbackPlacement, FallbackRules
from broker_ctl.broker.lookup.interfaces import Placement
from broker_ctl.broker.lookup.lookup import Lookup
from broker_ctl.broker.lookup.standalone import Standalone
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, NOOP
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.leader_rules import leader_rules
from broker_ctl.settings.root import Settings
from broker_ctl.store.caches.rules import CacheRules


def home_cluster(base: Foundation) -> ClusterRouter:
    """Which namespaces are served here."""
    settings = base.settings
    rules = CacheRules.expiring(settings.metadata.cache_expiry_s)
    return ClusterRouter(base.configuration, settings.broker.cluster_name, base.clock, rules)


def lookup_of(
    base: Foundation,
    *,
    ownership: Ownership,
    namespaces: Namespaces,
    home: ClusterRouter,
    cluster: LiveCluster,
    leaderless: FallbackPlacement,
    while_leading: Callable[[], LoadBalancer | None],
) -> Lookup:
    """The lookups of this broker."""
    return Lookup(
        ownership=ownership,
        namespaces=namespaces,
        cluster=cluster,
        placement=_placement(base, while_leading),
        cluster_router=home,
        fallback=leaderless,
        authorised=LeaseGuard(base.watcher),
        clock=base.clock,
    )


def leaderless_of(
    base: Foundation,
    registry: Registry,
    directives: Directives,
    configuration: DynamicConfiguration,
    constraints: ConstraintsCache,
) -> FallbackPlacement:
    """Placement while nobody leads, by the leader's rules."""
    return FallbackPlacement(
        store=base.metadata,
        registry=registry,
        constraints=constraints.current,
        drained=lambda: directives.drains,
        rules=configuration.derive(_leaderless_rules),
        clock=base.clock,
        rng=base.rng,
    )


def _leaderless_rules(settings: Settings) -> FallbackRules:
    rules = leader_rules(settings)
    return FallbackRules(rules.placement, rules.placement_rules, rules.weights)


def _placement(
    base: Foundation, while_leading: Callable[[], LoadBalancer | None]
) -> Callable[[], Placement | None]:
    """The leader decides where a bundle goes; a broker that is alone takes it."""
    if LOAD_MANAGERS.find(base.settings.balancing.load_manager) is not NOOP:
        return while_leading
    standalone = Standalone(base.urls.broker_id)
    return lambda: standalone


def partitioned_topics_of(
    base: Foundation, namespaces: Namespaces, configuration: DynamicConfiguration
) -> PartitionedTopics:
    """Topics with partitions, which their clients ask for first."""
    parts = PolicyStore.of(base.lasting_configuration, base.clock, base.rng)
    rules = CacheRules.expiring(base.settings.metadata.cache_expiry_s)
    return PartitionedTopics(
        parts, namespaces, rules, lambda: configuration.current().surface.most_partitions
    )
