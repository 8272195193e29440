"""Builds the services of every broker, and its lookups."""

from collections.abc import Collection
from importlib.metadata import version

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.broker.history.writer import History
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.authorised import LeaseGuard
from broker_ctl.broker.lookup.cluster_routing import ClusterRouter
from broker_ctl.broker.lookup.fallback_placement import FallbackPlacement, FallbackRules
from broker_ctl.broker.lookup.lookup import Lookup
from broker_ctl.broker.lookup.receiver_check import ReceiverCheck
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.broker.ownership.command_handler import BundleCommandHandler
from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.broker.ownership.operations import OwnershipDependencies
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.grants import StoredGrants
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.replicas.partition_leaders import PartitionLeaders
from broker_ctl.broker.services import BrokerServices
from broker_ctl.coordination.election.confirmed_epoch import ConfirmedEpoch
from broker_ctl.coordination.membership.racks import PeerRacks
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, NOOP
from broker_ctl.daemon.wiring.coordination import Coordination
from broker_ctl.daemon.wiring.foundation import Foundation, while_leading
from broker_ctl.daemon.wiring.history import build_history, owner_change_recorder
from broker_ctl.daemon.wiring.leader_rules import leader_rules
from broker_ctl.daemon.wiring.load_reports import report_form, report_rules, usage_source
from broker_ctl.daemon.wiring.policy_rules import reclaim_grace_s, split_rules
from broker_ctl.daemon.wiring.security.placement_proofs import placement_proofs
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths


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
