"""Builds the services of every broker, its lookups, its coordination, its status."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.broker.history import History
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.fallback_placement import (
    FallbackPlacement,
    FallbackRules,
    ReceiverCheck,
)
from broker_ctl.broker.lookup.lookup import ClusterRouter, LeaseGuard, Lookup
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.broker.ownership.command_handler import BundleCommandHandler
from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership, OwnershipDependencies
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.policies.tenants import StoredGrants
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.broker.replicas.partition_leaders import PartitionLeaders
from broker_ctl.broker.services import BrokerServices
from broker_ctl.clock import Clock
from broker_ctl.coordination.directives import Directives, Moves
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.coordination.locks import Locks
from broker_ctl.coordination.membership.cluster import LiveCluster, PeerRacks
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.membership.metadata_migration import MetadataMigration
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.session import Grant, SessionWatcher
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, NOOP
from broker_ctl.daemon.wiring.dataplanes import report_form, report_rules, usage_source
from broker_ctl.daemon.wiring.foundation import Foundation, grouped, while_leading
from broker_ctl.daemon.wiring.history import build_history, owner_change_recorder
from broker_ctl.daemon.wiring.part_rules import leader_rules, reclaim_grace_s, split_rules
from broker_ctl.daemon.wiring.peers import placement_proofs
from broker_ctl.dataplane.bundles.interface import Authority, DataPlane
from broker_ctl.errors import CorruptRecord
from broker_ctl.settings.effect import fingerprints
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.instrumented import RetryingStore
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.tasks import TaskFaults

# Builds the parts with which brokers coordinate: registry, owners, election, moves.


class Coordination:
    """The parts of this floor.

    Attributes:
        fingerprints: of this daemon's settings, as others read them.
        others: brokers other than broker-ctl's; None if the cluster may not have any.
        migration: part in a migration of their metadata; None as ``others``.
    """

    def __init__(self, base: Foundation) -> None:
        broker, tick_s = base.settings.broker, base.settings.zookeeper.tick_time_s
        lookup_urls = LookupUrls(
            broker.lookup_service_url,
            broker.lookup_service_url_tls,
            grouped(broker.lookup_listeners),
        )
        self.fingerprints: Final = fingerprints(base.settings)
        own = Registration(
            *(base.nonce, 0, base.clock.wall_ms(), base.urls),
            lookup_urls=lookup_urls,
            rack=broker.rack,
            settings=self.fingerprints,
        )
        self.registry: Final = Registry(base.control, own, base.deletions, tick_s, rng=base.rng)
        self.racks: Final = PeerRacks(self.registry)
        others = ForeignBrokers(base.metadata, rng=base.rng) if broker.allow_mixed_cluster else None
        self.others: Final = others
        self.migration: Final = (
            MetadataMigration(base.store, base.gate, base.watcher, rng=base.rng)
            if base.gate is not None
            else None
        )
        self.moves: Final = Moves(base.control, rng=base.rng)
        self.directives: Final = Directives(RetryingStore(base.control), rng=base.rng)
        self.locks: Final = Locks(
            base.metadata,
            paths.OWNERSHIP,
            broker_id=base.urls.broker_id,
            broker_of=_broker_of,
            rng=base.rng,
            on_verified=base.instruments.session.revalidation_s.observe,
        )
        base.watcher.listen(self.locks.on_session_action)
        self.election: Final = base.build_election(paths.LOADBALANCE_ELECTION)
        self.cluster: Final = LiveCluster(
            self.registry, self.election, base.watcher, others, base.addresses
        )


def _broker_of(node: Versioned) -> str | None:
    try:
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    except CorruptRecord:
        return None


# Status of this daemon for the API: readiness, authority, session.


# Authority without an end is reported as one day; clients ask again long before that.
_LONGEST_S: Final = 86_400.0
_STARTING: Final = Readiness(is_ready=False, reason="starting")


def session_grant(watcher: SessionWatcher) -> Callable[[], Grant]:
    """What a session allows a daemon that owns no bundles."""
    return lambda: Grant(watcher.epoch, watcher.deadline_s)


@dataclass(slots=True)
class DaemonStatus:
    """Read at each request.

    Attributes:
        granted: what the data plane may act on. The session's own grant is too early: after an
            expiry it comes before the bundles are re-acquired, and a broker process that reads it
            would serve what is not owned (I1a). While the data plane is silent, a broker process
            that still reads it would never stop (I11).
        now: readiness of the current stage, which the lifecycle sets.
    """

    watcher: SessionWatcher
    clock: Clock
    faults: TaskFaults
    granted: Callable[[], Grant]
    replicas: Replicas | None = None
    now: Readiness = _STARTING

    def readiness(self) -> Readiness:
        """The lifecycle's readiness, unless a needed task or the authority has ended meanwhile."""
        watcher, now = self.watcher, self.now
        if watcher.withheld:
            return Readiness(is_ready=False, reason=watcher.withheld)
        if now.is_ready and self.clock.now_s() >= watcher.deadline_s:
            reason = (
                f"ZooKeeper does not answer: the session is {watcher.state}, and nothing is served "
                "until it is back; broker-ctl zookeeper status shows the servers"
            )
            return Readiness(is_ready=False, reason=reason)
        if now.is_ready and (dead := self.faults.dead):
            reason = f"task {dead[0]} has failed, the log says why: restart this daemon"
            return Readiness(is_ready=False, reason=reason)
        if now.is_ready and watcher.state is SessionState.SUSPENDED:
            return Readiness(is_ready=True, reason=self._away_text())
        return now

    def _away_text(self) -> str:
        """What a broker does whose connection is lost, and for how long.

        Docs: lookups-while-zookeeper-is-away.
        """
        left_s = self.watcher.deadline_s - self.clock.now_s()
        until = f"until its lease ends in {left_s:.0f} s" if left_s < _LONGEST_S else "on"
        return (
            f"ZooKeeper is away: this broker serves {until}; lookups of what it does not serve "
            "are answered with 503"
        )

    def authority(self) -> tuple[int, int]:
        """Session epoch, and the milliseconds for which acts may still start.

        With replicas: 0 until all leaderships of earlier sessions have been stopped.
        """
        grant, replicas, now_s = self.granted(), self.replicas, self.clock.now_s()
        if replicas is not None and not replicas.is_granted(grant.epoch):
            return grant.epoch, 0
        deadline_s = min(grant.deadline_s, now_s + _LONGEST_S)
        return grant.epoch, Authority(grant.epoch, deadline_s).remaining_ms(now_s)

    def session_state(self) -> SessionState:
        """State of the session with ZooKeeper."""
        return self.watcher.state


# Builds the services of every broker, and its lookups.


def build_services(base: Foundation, coordination: Coordination) -> BrokerServices:
    """Build what every broker runs."""
    settings, clock, rng, rules = base.settings, base.clock, base.rng, base.cache_rules
    stores = base.lasting, base.lasting_configuration
    cluster, history = settings.broker.cluster_name, build_history(base)
    configuration = DynamicConfiguration(base.lasting, settings, clock=clock, rng=rng)
    bundles = configuration.derive(lambda now: now.splitting.default_bundles)
    namespaces = Namespaces(
        *stores, cluster=cluster, default_bundles=bundles, clock=clock, cache_rules=rules, rng=rng
    )
    policies = Policies.of(*stores, cluster=cluster, namespaces=namespaces, clock=clock, rng=rng)
    policy_store = PolicyStore.of(base.lasting_configuration, clock, rng)
    most = configuration.derive(lambda now: now.api.most_partitions)
    owned = _ownership_dependencies(base, coordination, configuration, namespaces, history)
    reporter = _reporter(base, coordination, owned.dataplane, configuration)
    unload_s = configuration.derive(lambda now: now.session.bundle_unloading_timeout_s)
    ownership = Ownership(owned, base.urls, unload_s, reporter.bundles_changed)
    base.watcher.listen_grants(ownership.on_grant)
    failure_s = settings.dataplane.failure_timeout_s
    return BrokerServices(
        dataplane=owned.dataplane,
        configuration=configuration,
        constraints=_constraints(base, coordination.racks),
        policies=policies,
        grants=StoredGrants(base.configuration, clock, rules, rng=rng),
        namespaces=namespaces,
        partitioned_topics=PartitionedTopics(policy_store, namespaces, rules, most),
        partition_leaders=PartitionLeaders(base.metadata, clock, rules, rng=rng),
        home=ClusterRouter(base.configuration, cluster, clock, rules, rng=rng),
        owners=owned.owners,
        ownership=ownership,
        commands=BundleCommandHandler(
            ownership=ownership,
            owners=owned.owners,
            moves=coordination.moves,
            epochs=ConfirmedEpoch(base.metadata, paths.LOADBALANCE_ELECTION),
        ),
        dataplane_watch=DataPlaneWatch(owned.dataplane, ownership, clock, failure_s, rng=rng),
        reporter=reporter,
        history=history,
    )


def _constraints(base: Foundation, racks: PeerRacks) -> ConstraintsCache:
    stores, cluster = (base.metadata, base.configuration), base.settings.broker.cluster_name
    return ConstraintsCache(*stores, cluster, rng=base.rng, racks=racks.current)


def _ownership_dependencies(
    base: Foundation,
    coordination: Coordination,
    configuration: DynamicConfiguration,
    namespaces: Namespaces,
    history: History | None,
) -> OwnershipDependencies:
    settings, registry, rng = base.settings, coordination.registry, base.rng
    grace_s = reclaim_grace_s(settings)
    return OwnershipDependencies(
        store=base.metadata,
        watcher=base.watcher,
        locks=coordination.locks,
        namespaces=namespaces,
        owners=Owners(base.metadata, registry, base.clock, grace_s, base.cache_rules, rng=rng),
        moves=coordination.moves,
        deletions=base.deletions,
        dataplane=base.environment.dataplane(settings),
        rng=rng,
        is_preloading=settings.session.reclaim_load_immediately,
        split_rules=configuration.derive(split_rules),
        on_owner_change=owner_change_recorder(history, base.watcher),
        instruments=base.instruments.ownership,
    )


def _reporter(
    base: Foundation,
    coordination: Coordination,
    dataplane: DataPlane,
    configuration: DynamicConfiguration,
) -> LoadReporter:
    host = base.environment.host_usage(base.settings)
    return LoadReporter(
        dataplane=dataplane,
        usage=usage_source(base.settings, dataplane, host),
        registry=coordination.registry,
        clock=base.clock,
        rules=configuration.derive(report_rules),
        urls=base.urls,
        version=version("broker-ctl"),
        form=report_form(base.settings),
    )


def build_lookup(
    base: Foundation,
    coordination: Coordination,
    services: BrokerServices,
    balancer: LoadBalancer,
    authorised: LeaseGuard,
) -> Lookup:
    """Lookups: the leader places a bundle that nobody owns; a broker that is alone takes it."""
    is_alone = LOAD_MANAGERS.find(base.settings.balancing.load_manager) is NOOP
    placement = while_leading(coordination.election, balancer.place)

    async def place_here(_: Bundle, __: str) -> str:
        # If there are other brokers, the owner node says who was first.
        return base.urls.broker_id

    constraints = services.constraints.current
    rules = services.configuration.derive(_fallback_rules)

    def drained() -> Collection[str]:
        return coordination.directives.drains

    return Lookup(
        ownership=services.ownership,
        namespaces=services.namespaces,
        cluster=coordination.cluster,
        placement=(lambda: place_here) if is_alone else placement,
        cluster_router=services.home,
        fallback=FallbackPlacement(
            store=base.metadata,
            registry=coordination.registry,
            constraints=constraints,
            drained=drained,
            rules=rules,
            clock=base.clock,
            rng=base.rng,
        ),
        receiver_check=ReceiverCheck(
            store=base.metadata,
            registry=coordination.registry,
            constraints=constraints,
            drained=drained,
            report_ttl_s=lambda: rules().placement_rules.report_ttl_s,
        ),
        proofs=placement_proofs(
            base, coordination.election, lambda: services.commands.newest_epoch
        ),
        authorised=authorised,
        clock=base.clock,
    )


def _fallback_rules(settings: Settings) -> FallbackRules:
    rules = leader_rules(settings)
    return FallbackRules(rules.placement, rules.placement_rules, rules.weights)
