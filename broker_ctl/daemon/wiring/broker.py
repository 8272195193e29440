"""Builds every part of a daemon, floor by floor, and starts none of them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.execution.executor import ExecutorConnections
from broker_ctl.broker.history.decision_log import DecisionLog
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.authorised import LeaseGuard
from broker_ctl.broker.lookup.lookup import Lookup
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.command_handler import BundleCommandHandler
from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.broker.ownership.operations import OwnershipDependencies
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.broker.ownership.split_boundaries import Boundaries
from broker_ctl.broker.ownership.topics import OwnTopics
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.services import BrokerServices
from broker_ctl.coordination.election.election import Election
from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.coordination.replicated.moves import Moves
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.daemon.wiring.api import authority, readiness_of, surface_rules
from broker_ctl.daemon.wiring.environment import Environment, Server
from broker_ctl.daemon.wiring.foundation import Foundation, build_foundation
from broker_ctl.daemon.wiring.history import history_of, leader_history, owner_changes
from broker_ctl.daemon.wiring.leader_rules import leader_rules
from broker_ctl.daemon.wiring.load_reports import report_form, report_rules, usage_source
from broker_ctl.daemon.wiring.lookup import (
    home_cluster,
    leaderless_of,
    lookup_of,
    partitioned_topics_of,
)
from broker_ctl.daemon.wiring.mixed_cluster import others_of
from broker_ctl.daemon.wiring.partitions import Partitions, partition_leaders_of, partitions_of
from broker_ctl.daemon.wiring.policy_rules import reclaim_grace_s, split_rules
from broker_ctl.daemon.wiring.readiness import ReadinessNow
from broker_ctl.daemon.wiring.tls import peer_context
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import CorruptRecord
from broker_ctl.http_client import HttpClient
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.across_sessions import LastingStore
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData

_PEER_REPLY_BYTES: Final = 1 << 20
_PEER_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Coordination:
    """Floor 2; no others where none may be in the cluster."""

    registry: Registry
    others: ForeignBrokers | None
    moves: Moves
    directives: Directives
    locks: Locks
    election: Election


@dataclass(frozen=True, slots=True)
class Assembly:
    """Every part of a daemon, wired and not yet started; no partitions without a brokerId."""

    foundation: Foundation
    coordination: Coordination
    services: BrokerServices
    controller: LoadBalancer
    partitions: Partitions | None
    peers_http: HttpClient
    lookup: Lookup
    surface: Server
    readiness: ReadinessNow


def assemble(settings: Settings, surroundings: Environment) -> Assembly:
    """Wire a daemon.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """
    base = build_foundation(settings, surroundings)
    coordination = _coordinate(base)
    services = _build_services(base, coordination)
    http = _peers_http(base)
    controller = _controller(base, coordination, services, http)
    partitions = partitions_of(
        base,
        dataplane=services.dataplane,
        configuration=services.configuration,
        http=http,
        history=services.history,
    )
    readiness = ReadinessNow()
    cluster = _cluster(base, coordination)
    while_leading = _while_leading(coordination.election, controller)
    lookup = lookup_of(
        base,
        ownership=services.ownership,
        namespaces=services.namespaces,
        home=services.home,
        cluster=cluster,
        leaderless=leaderless_of(
            base,
            coordination.registry,
            coordination.directives,
            services.configuration,
            services.constraints,
        ),
        while_leading=while_leading,
    )
    surface = _show(
        base,
        cluster=cluster,
        directives=coordination.directives,
        services=services,
        partitions=partitions,
        lookup=lookup,
        while_leading=while_leading,
        http=http,
        readiness=readiness,
    )
    return Assembly(
        base, coordination, services, controller, partitions, http, lookup, surface, readiness
    )


def _cluster(base: Foundation, floor: Coordination) -> LiveCluster:
    return LiveCluster(floor.registry, floor.election, base.watcher, floor.others)


def _peers_http(base: Foundation) -> HttpClient:
    return HttpClient(
        token=None if base.credentials is None else base.credentials.own_token,
        timeout_s=_PEER_TIMEOUT_S,
        max_body_bytes=_PEER_REPLY_BYTES,
        ssl=peer_context(base.settings),
    )


def _controller(
    base: Foundation, coordination: Coordination, services: BrokerServices, http: HttpClient
) -> LoadBalancer:
    """Floor 3 of the leader."""
    peers = base.surroundings.peers(coordination.registry, http, services.commands)
    return LoadBalancer(
        BalancerDependencies(
            own_id=base.urls.broker_id,
            store=base.metadata,
            registry=coordination.registry,
            moves=coordination.moves,
            hands=ExecutorConnections(coordination.moves, peers).hands,
            clock=base.clock,
            journal=services.journal,
            rules=services.configuration.derive(leader_rules),
            ring_of=services.namespaces.ring,
            owner_of=services.owners.owner_of,
            directives=coordination.directives,
            constraints=services.constraints.current,
            history=leader_history(services.history, services.configuration),
        ),
    )


def _broker_of(node: Versioned) -> str | None:
    try:
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    except CorruptRecord:
        return None


def _coordinate(base: Foundation) -> Coordination:
    broker_id, tick_s = base.urls.broker_id, base.settings.zookeeper.tick_time_s
    broker = base.settings.broker
    lookup_urls = LookupUrls(broker.lookup_service_url, broker.lookup_service_url_tls)
    registration = Registration(
        base.nonce, 0, base.clock.wall_ms(), base.urls, lookup_urls=lookup_urls
    )
    locks = Locks(
        base.control,
        paths.OWNERSHIP,
        broker_id=broker_id,
        broker_of=_broker_of,
        rng=base.rng,
        on_verified=base.instruments.session.revalidation_s.observe,
    )
    election = Election(
        base.control,
        base.watcher,
        base.deletions,
        clock=base.clock,
        election_name=paths.LOADBALANCE_SEAT,
        leader=LeaderBroker(broker_id, base.urls.web_url or base.urls.web_url_tls or ""),
        rng=base.rng,
    )
    base.watcher.listen(locks.on_session_action)
    base.watcher.listen(election.on_session_action)
    return Coordination(
        registry=Registry(base.control, registration, base.deletions, tick_s),
        others=others_of(base),
        moves=Moves(base.control),
        directives=Directives(LastingStore(base.control)),
        locks=locks,
        election=election,
    )


def _reporter(
    base: Foundation,
    registry: Registry,
    dataplane: DataPlane,
    configuration: DynamicConfiguration,
) -> LoadReporter:
    return LoadReporter(
        dataplane=dataplane,
        usage=usage_source(base.settings, dataplane, base.surroundings.host_usage(base.settings)),
        registry=registry,
        clock=base.clock,
        rules=configuration.derive(report_rules),
        urls=base.urls,
        version=version("broker-ctl"),
        form=report_form(base.settings),
    )


def _cached(
    base: Foundation, registry: Registry, configuration: DynamicConfiguration
) -> tuple[Namespaces, Owners]:
    """What is asked for with each lookup."""
    settings = base.settings
    rules = CacheRules.expiring(settings.metadata.cache_expiry_s)
    namespaces = Namespaces(
        base.lasting,
        base.lasting_configuration,
        cluster=settings.broker.cluster_name,
        default_bundles=lambda: configuration.current().splitting.default_bundles,
        clock=base.clock,
        cache_rules=rules,
    )
    return namespaces, Owners(base.metadata, registry, base.clock, reclaim_grace_s(settings), rules)


def _constraints(base: Foundation) -> ConstraintsCache:
    cluster = base.settings.broker.cluster_name
    return ConstraintsCache(base.metadata, base.configuration, cluster)


def _policies(base: Foundation, namespaces: Namespaces) -> Policies:
    return Policies.of(
        base.lasting,
        base.lasting_configuration,
        cluster=base.settings.broker.cluster_name,
        namespaces=namespaces,
        clock=base.clock,
        rng=base.rng,
    )


def _build_services(base: Foundation, coordination: Coordination) -> BrokerServices:
    settings, clock, history = base.settings, base.clock, history_of(base)
    dataplane, watched = base.surroundings.dataplane(settings), settings.dataplane
    configuration = DynamicConfiguration(base.lasting, settings, clock=clock, rng=base.rng)
    namespaces, owners = _cached(base, coordination.registry, configuration)
    reporter = _reporter(base, coordination.registry, dataplane, configuration)
    watcher, moves = base.watcher, coordination.moves
    ownership = Ownership(
        OwnershipDependencies(
            store=base.metadata,
            watcher=watcher,
            locks=coordination.locks,
            namespaces=namespaces,
            owners=owners,
            moves=moves,
            deletions=base.deletions,
            dataplane=dataplane,
            rng=base.rng,
            is_preloading=settings.session.reclaim_load_immediately,
            split_rules=configuration.derive(split_rules),
            on_owner_change=owner_changes(history, base.watcher),
            instruments=base.instruments.ownership,
        ),
        base.urls,
        lambda: configuration.current().session.bundle_unloading_timeout_s,
        reporter.bundles_changed,
    )
    watcher.listen_grants(ownership.on_grant)
    election = paths.LOADBALANCE_SEAT
    commands = BundleCommandHandler(
        ownership=ownership, owners=owners, moves=moves, watcher=watcher, election=election
    )
    return BrokerServices(
        dataplane=dataplane,
        configuration=configuration,
        constraints=_constraints(base),
        policies=_policies(base, namespaces),
        namespaces=namespaces,
        partitioned_topics=partitioned_topics_of(base, namespaces, configuration),
        partition_leaders=partition_leaders_of(base),
        home=home_cluster(base),
        owners=owners,
        ownership=ownership,
        commands=commands,
        dataplane_watch=DataPlaneWatch(dataplane, ownership, clock, watched.failure_timeout_s),
        reporter=reporter,
        history=history,
        journal=DecisionLog(history),
    )


def _show(
    base: Foundation,
    *,
    cluster: LiveCluster,
    directives: Directives,
    services: BrokerServices,
    partitions: Partitions | None,
    lookup: Lookup,
    while_leading: Callable[[], LoadBalancer | None],
    http: HttpClient,
    readiness: ReadinessNow,
) -> Server:
    replicas = None if partitions is None else partitions.replicas
    dependencies = Dependencies(
        own_id=base.urls.broker_id,
        services=services,
        lookup=lookup,
        boundaries=Boundaries(services.dataplane, services.configuration.derive(split_rules)),
        topics=OwnTopics(services.ownership.owned, services.dataplane),
        cluster=cluster,
        admin=while_leading,
        journal=services.journal,
        directives=directives,
        readiness=lambda: readiness_of(readiness.now, base),
        authority=lambda: authority(base.watcher, base.clock, replicas),
        session_state=lambda: base.watcher.state,
        peers=http,
        instruments=base.instruments,
        clock=base.clock,
        authorised=LeaseGuard(base.watcher),
        partitions=None if partitions is None else partitions.dependencies,
        replicas=replicas,
    )
    return base.surroundings.surface(dependencies, surface_rules(base.settings, base.credentials))


def _while_leading(
    election: Election, controller: LoadBalancer
) -> Callable[[], LoadBalancer | None]:
    """The controller while it leads; nothing it says counts at other times."""
    return lambda: controller if election.leadership is not None else None
