"""Lookups of a daemon: who decides on a bundle that nobody owns, and on what."""

from collections.abc import Callable

from broker_ctl.coordination.cluster import LiveCluster
from broker_ctl.coordination.directives import Directives
from broker_ctl.coordination.registry import Registry
from broker_ctl.core.load_managers import LOAD_MANAGERS, NOOP
from broker_ctl.daemon.foundation import Foundation
from broker_ctl.daemon.leading import leader_rules
from broker_ctl.leader.controller import Controller
from broker_ctl.managers.authorised import Authorised
from broker_ctl.managers.configuration import DynamicConfiguration
from broker_ctl.managers.constraints import FollowedConstraints
from broker_ctl.managers.home_cluster import HomeCluster
from broker_ctl.managers.leaderless import Leaderless, LeaderlessRules
from broker_ctl.managers.lookup import Lookup
from broker_ctl.managers.namespaces import Namespaces
from broker_ctl.managers.ownership import Ownership
from broker_ctl.managers.partitioned_topics import PartitionedTopics
from broker_ctl.managers.policy_nodes import PolicyStore
from broker_ctl.managers.standalone import Standalone
from broker_ctl.ports import Placement
from broker_ctl.settings.root import Settings
from broker_ctl.store.caches.rules import CacheRules


def home_cluster(base: Foundation) -> HomeCluster:
    """Which namespaces are served here."""
    settings = base.settings
    rules = CacheRules.expiring(settings.metadata.cache_expiry_s)
    return HomeCluster(base.configuration, settings.broker.cluster_name, base.clock, rules)


def lookup_of(
    base: Foundation,
    *,
    ownership: Ownership,
    namespaces: Namespaces,
    home: HomeCluster,
    cluster: LiveCluster,
    leaderless: Leaderless,
    while_leading: Callable[[], Controller | None],
) -> Lookup:
    """The lookups of this broker."""
    return Lookup(
        ownership=ownership,
        namespaces=namespaces,
        cluster=cluster,
        placement=_placement(base, while_leading),
        home=home,
        leaderless=leaderless,
        authorised=Authorised(base.watcher),
        clock=base.clock,
    )


def leaderless_of(
    base: Foundation,
    registry: Registry,
    directives: Directives,
    configuration: DynamicConfiguration,
    constraints: FollowedConstraints,
) -> Leaderless:
    """Placement while nobody leads, by the leader's rules."""
    return Leaderless(
        store=base.metadata,
        registry=registry,
        constraints=constraints.current,
        drained=lambda: directives.drains,
        rules=configuration.derive(_leaderless_rules),
        clock=base.clock,
        draws=base.draws,
    )


def _leaderless_rules(settings: Settings) -> LeaderlessRules:
    rules = leader_rules(settings)
    return LeaderlessRules(rules.placement, rules.placement_rules, rules.weights)


def _placement(
    base: Foundation, while_leading: Callable[[], Controller | None]
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
    parts = PolicyStore.of(base.lasting_configuration, base.clock, base.draws)
    rules = CacheRules.expiring(base.settings.metadata.cache_expiry_s)
    return PartitionedTopics(
        parts, namespaces, rules, lambda: configuration.current().surface.most_partitions
    )
