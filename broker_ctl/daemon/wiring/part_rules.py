"""The rules of each part, from the settings."""

from typing import Any, Final

from broker_ctl.api.http.access.peer_requests import BrokerCertificates, PeerRequests
from broker_ctl.api.http.dependencies import ApiRules, BinaryLimits
from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.core.cluster.surges import MassLossRules
from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.core.rules.leader_rules import (
    NO_SURGES,
    AvgRules,
    BalanceRules,
    Band,
    Budgets,
    DifferenceRules,
    MergeRules,
    OverloadRules,
    PlacementRules,
    SheddingRules,
    SimpleRules,
    SlowRules,
    Smoothing,
    SplitRules,
    SurgeRules,
    TransferRules,
    UniformRules,
)
from broker_ctl.core.rules.limits import NO_QUIET_HOURS, QuietHours
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, SIMPLE
from broker_ctl.core.strategies.placement.strategies import PlacementPolicy
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding_strategies import BALANCE
from broker_ctl.core.strategies.simple import SimplePlacement, SimpleShedder
from broker_ctl.daemon.wiring.keys import dataplane_secret, server_tls
from broker_ctl.daemon.wiring.security import Authentication, authorization_policy
from broker_ctl.security.client_limits import RateLimits
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import CONSOLE, TOKENS
from broker_ctl.settings.publishing import further_ports
from broker_ctl.settings.root import Settings
from broker_ctl.settings.strategies import PLACEMENT_STRATEGIES, shedding_policy
from broker_ctl.settings.subjects.tokens import JwtSettings

# The rules of the policies, from the settings.


def is_simple_manager(settings: Settings) -> bool:
    """Whether the Simple manager's strategies are in use, regardless of other strategy settings."""
    return LOAD_MANAGERS.find(settings.balancing.load_manager) is SIMPLE


def reclaim_grace_s(settings: Settings) -> float:
    """Seconds for which only the former owner may acquire a bundle after a session expiry.

    At least one heartbeat period: if the servers' leader did not receive a committed heartbeat, the
    servers may end a session by that much before its lease.
    """
    rules = LeaseRules(settings.metadata.session_timeout_s, settings.zookeeper.tick_time_s)
    return max(settings.session.reclaim_grace_s, rules.period_s)


def shedding_rules(settings: Settings) -> SheddingRules:
    """The rules of shedding."""
    shedding, shedders = settings.shedding, settings.shedders
    return SheddingRules(
        threshold_points=shedding.threshold_percent,
        history_ratio=shedding.history_ratio,
        min_throughput_bytes=shedding.min_throughput_bytes_per_s,
        is_lower_boundary_enabled=shedding.lower_boundary_enabled,
        grace_s=shedding.grace_period_s,
        excluded_namespaces=frozenset(shedding.excluded_namespaces),
        report_ttl_s=settings.load_report.ttl_s,
        overload=OverloadRules(settings.placement.overloaded_threshold_ratio),
        difference=DifferenceRules(
            max_ratio=shedders.max_unload_ratio,
            min_msg_rate=shedders.min_unload_msg_per_s,
            min_throughput_bytes=shedders.min_unload_bytes_per_s,
        ),
        uniform=UniformRules(
            msg_rate_percent=shedders.rate_difference_percent,
            throughput_multiple=shedders.throughput_multiple,
            max_bundles=None if shedders.max_unload_bundles < 0 else shedders.max_unload_bundles,
        ),
        avg=AvgRules(
            low_points=shedders.average_low_threshold_percent,
            high_points=shedders.average_high_threshold_percent,
            low_hits=shedders.average_low_hit_count,
            high_hits=shedders.average_high_hit_count,
        ),
        transfer=_transfer_rules(settings),
        balance=_balance_rules(settings),
    )


def _transfer_rules(settings: Settings) -> TransferRules:
    shedders = settings.shedders
    return TransferRules(
        target_std=shedders.target_std,
        hits=shedders.hit_count,
        max_brokers=shedders.max_brokers_per_cycle,
        delay_s=shedders.delay_s,
        top_bundles=max(shedders.max_reported_bundles, 0),
        is_transfer_enabled=shedders.transfer_enabled,
        is_constrained_moved=shedders.policies_enabled,
        sample_s=settings.load_report.min_interval_s,
    )


def _balance_rules(settings: Settings) -> BalanceRules:
    planner = settings.planner
    return BalanceRules(
        band=Band(planner.high_percent / 100, planner.low_percent / 100),
        overloaded_ratio=settings.placement.overloaded_threshold_ratio,
        churn_ratio=planner.churn_percent / 100,
        severe_ratio=planner.severe_percent / 100,
        smoothing=Smoothing(recent_s=planner.recent_s, steady_s=planner.steady_s),
        rest_s=settings.shedding.grace_period_s,
        return_s=planner.return_s,
        quiet=planner.quiet_hours,
        slow=_slow_rules(settings),
        headroom_ratio=planner.headroom_percent / 100,
        weights=settings.load_report.weights,
        limits=settings.placement.limits,
        topic_cap=settings.placement.topic_cap,
    )


def _slow_rules(settings: Settings) -> SlowRules:
    slow = settings.slow_brokers
    return SlowRules(
        is_enabled=slow.detection_enabled,
        is_removing=slow.removal_enabled,
        peers_times=slow.peers_multiple,
        own_times=slow.history_multiple,
        min_throughput_bytes=slow.min_throughput_kib_per_s * 1024.0,
        min_usage_ratio=slow.min_usage_percent / 100,
        report_age_s=settings.load_report.ttl_s,
        demoted_score=slow.demotion_score,
        removed_score=slow.removal_score,
        max_ratio=slow.max_percent / 100,
    )


def surge_rules(settings: Settings) -> SurgeRules:
    """The rules of surges: Pulsar's strategies count their rounds, and none is inserted."""
    is_balance = BALANCE in settings.shedding.strategies and not is_simple_manager(settings)
    return SurgeRules(times=settings.planner.surge_times) if is_balance else NO_SURGES


def split_rules(settings: Settings) -> SplitRules:
    """The rules of splits; a split bundle rests for one round of statistics."""
    splitting = settings.splitting
    is_balance = BALANCE in settings.shedding.strategies and not is_simple_manager(settings)
    return SplitRules(
        algorithm=splitting.default_algorithm,
        max_topics=splitting.max_topics,
        max_sessions=max(splitting.max_sessions, 0),
        max_msg_rate=splitting.max_rate_msg_per_s,
        max_bandwidth_bytes=splitting.max_bandwidth_bytes_per_s,
        max_bundles_per_namespace=splitting.max_bundles,
        max_per_cycle=splitting.max_splits_per_cycle,
        cool_down_s=settings.load_report.stats_interval_s,
        hit_count=splitting.hit_count,
        flow_difference_ratio=splitting.flow_difference_percent / 100,
        # Strategy balance plans the places of new bundles anyway.
        is_unloading=splitting.unload_enabled and not is_balance,
        max_share_ratio=settings.planner.max_share_percent / 100 if is_balance else 0.0,
    )


def whole_hours(settings: Settings) -> QuietHours:
    """Hours in which no bundle is split or merged."""
    is_held = settings.splitting.is_held_in_quiet_hours
    return settings.planner.quiet_hours if is_held else NO_QUIET_HOURS


def merge_rules(settings: Settings) -> MergeRules:
    """The rules of merges."""
    splitting = settings.splitting
    return MergeRules(
        limits=split_rules(settings),
        cold_ratio=splitting.merge_load_percent / 100,
        hit_count=splitting.merge_hit_count,
        min_bundles=splitting.min_bundles,
        max_per_cycle=splitting.max_merges_per_cycle,
        cool_down_s=splitting.merge_cool_down_s,
    )


def placement_rules(settings: Settings) -> PlacementRules:
    """The rules of placement."""
    placement = settings.placement
    is_balance = placement.strategy == BALANCE and not is_simple_manager(settings)
    return PlacementRules(
        overloaded_ratio=placement.overloaded_threshold_ratio,
        max_topics=placement.max_topics,
        report_ttl_s=settings.load_report.ttl_s,
        usage_difference_ratio=placement.usage_difference_ratio,
        # Strategy balance spreads load, which equal numbers of bundles would not.
        is_spread_evenly=placement.is_spread_evenly and not is_balance,
        has_failure_domains=placement.failure_domains_enabled,
        prefers_later_versions=placement.prefers_later_versions,
        excluded_namespaces=frozenset(settings.shedding.excluded_namespaces),
        limits=placement.limits,
        topic_cap=placement.topic_cap,
    )


def simple_rules(settings: Settings) -> SimpleRules:
    """The rules of the Simple manager."""
    balancing = settings.balancing
    return SimpleRules(
        overload_percent=settings.placement.overloaded_threshold_percent,
        comfort_percent=balancing.comfort_threshold_percent,
        underload_percent=balancing.underloaded_threshold_percent,
        strategy=balancing.simple_strategy,
    )


def budgets(settings: Settings) -> Budgets:
    """Limits of concurrent and hourly moves."""
    balancing = settings.balancing
    return Budgets(
        max_moves_per_broker=balancing.max_moves_in_flight_per_broker,
        max_moves=balancing.max_moves_in_flight,
        hourly_load_ratio=balancing.max_load_moved_per_hour_percent / 100,
        cool_down_s=settings.shedding.grace_period_s,
    )


# The leader's rules, from the settings.


# Wait for one report of each broker, so that the first cycle sees all of them.
_SETTLE_REPORTS = 2


def leader_rules(settings: Settings) -> LeaderRules:
    """Policies with their rules, and the intervals of the leader."""
    shedding, splitting = settings.shedding, settings.splitting
    balancing, session = settings.balancing, settings.session
    is_shedding = balancing.enabled and shedding.enabled
    is_splitting = balancing.enabled and splitting.enabled
    is_merging = balancing.enabled and splitting.merge_enabled
    return LeaderRules(
        placement=_placement(settings),
        shedding=_shedding(settings) if is_shedding else None,
        splitting=split_rules(settings) if is_splitting else None,
        merging=merge_rules(settings) if is_merging else None,
        whole_hours=whole_hours(settings),
        shedding_rules=shedding_rules(settings),
        placement_rules=placement_rules(settings),
        budgets=budgets(settings),
        weights=settings.load_report.weights,
        average_sample_s=settings.load_report.average_sample_s,
        shedding_interval_s=shedding.interval_s,
        splitting_interval_s=splitting.interval_s,
        quota_interval_s=balancing.quota_interval_s,
        is_dry_run=balancing.dry_run,
        settle_s=_SETTLE_REPORTS * settings.load_report.min_interval_s,
        reclaim_grace_s=reclaim_grace_s(settings),
        unload_s=session.bundle_unloading_timeout_s,
        mass_loss=_mass_loss_rules(settings),
        surges=surge_rules(settings) if is_shedding else NO_SURGES,
    )


def _mass_loss_rules(settings: Settings) -> MassLossRules:
    balancing = settings.balancing
    return MassLossRules(
        balancing.max_lost_percent / 100,
        balancing.lost_window_s,
        balancing.lost_bundles_per_s,
    )


def _placement(settings: Settings) -> PlacementPolicy:
    if is_simple_manager(settings):
        return SimplePlacement(simple_rules(settings))
    return PLACEMENT_STRATEGIES.find(settings.placement.strategy)


def _shedding(settings: Settings) -> SheddingPolicy[Any]:
    if is_simple_manager(settings):
        return SimpleShedder(simple_rules(settings))
    return shedding_policy(settings.shedding.strategies)


# Rules of the API, from the settings.


# Heartbeats are late by the lag of the event loop: up to a tenth of their period is harmless.
_LAG_RATIO: Final = 0.1


def api_rules(
    settings: Settings,
    authentication: Authentication | None,
    reloader: Reloader,
    peers: PeerRequests | None = None,
    brokers: BrokerCertificates | None = None,
) -> ApiRules:
    """Addresses, authentication and limits of the API.

    Raises:
        StartError, SettingsError: a secret, a certificate or a key that cannot be read.
    """
    lease = LeaseRules(settings.metadata.session_timeout_s, settings.zookeeper.tick_time_s)
    return ApiRules(
        cluster=settings.broker.cluster_name,
        address=settings.broker.bind_address,
        port=settings.broker.web_service_port,
        port_tls=settings.broker.web_service_port_tls,
        lookup_port=settings.broker.lookup_service_port,
        lookup_port_tls=settings.broker.lookup_service_port_tls,
        tls=server_tls(settings, reloader),
        further_ports=further_ports(settings),
        hosts=_host_names(settings),
        zookeeper=_zookeeper_servers(settings),
        max_body_bytes=settings.api.max_body_bytes,
        status_file=settings.api.status_file,
        max_requests=settings.api.max_requests_in_flight,
        max_lookups=settings.api.max_concurrent_lookups,
        max_connections=settings.api.max_connections,
        max_connections_of_address=settings.client_limits.http_connections_of_address,
        rates=_http_rates(settings),
        max_failure_delay_s=settings.client_limits.max_failure_delay_s,
        binary=_binary_limits(settings),
        idle_timeout_s=settings.api.idle_timeout_s,
        max_loop_lag_s=lease.period_s * _LAG_RATIO,
        split_algorithm=settings.splitting.default_algorithm,
        split_algorithms=settings.splitting.supported_algorithms,
        authenticator=None if authentication is None else authentication.authenticator,
        policy=authorization_policy(settings),
        authenticates_metrics=authentication is not None
        and settings.security.authenticates_metrics,
        refresh_check_s=_refresh_check_s(settings),
        dataplane_secret=dataplane_secret(settings, reloader),
        peers=peers,
        broker_certificates=brokers,
        has_console=CONSOLE.holds(settings),
        is_console_read_only=settings.api.is_console_read_only,
    )


def _http_rates(settings: Settings) -> RateLimits:
    limits = settings.client_limits
    return RateLimits(
        total_per_s=limits.http_req_per_s if limits.limits_http else 0.0,
        address_per_s=limits.http_of_address_req_per_s,
        role_per_s=_of_roles(settings, limits.http_of_role_req_per_s),
    )


def _binary_limits(settings: Settings) -> BinaryLimits:
    limits, broker = settings.client_limits, settings.broker
    if broker.lookup_service_port is None and broker.lookup_service_port_tls is None:
        return BinaryLimits()
    return BinaryLimits(
        limits.binary_connections,
        limits.binary_connections_of_address,
        RateLimits(
            address_per_s=limits.binary_of_address_req_per_s,
            role_per_s=_of_roles(settings, limits.binary_of_role_req_per_s),
        ),
    )


def _of_roles(settings: Settings, per_s: float) -> float:
    return per_s if settings.security.authentication_enabled else 0.0


def _refresh_check_s(settings: Settings) -> float:
    """Without tokens nothing expires during a connection but certificates."""
    jwt = settings.jwt if TOKENS.holds(settings) else JwtSettings()
    return float(jwt.refresh_check_s)


def _zookeeper_servers(settings: Settings) -> str:
    url = settings.metadata.store_url
    return "" if url is None else ",".join(map(str, url.servers))


def _host_names(settings: Settings) -> tuple[str, ...]:
    """The names under which clients reach the HTTP server."""
    broker = settings.broker
    listeners = (listener.address.host for listener in broker.advertised_listeners)
    further = (port.address for port in further_ports(settings))
    bound = (broker.bind_address, *further)
    named = (broker.advertised_host, *bound, *listeners, *settings.api.allowed_hosts)
    return tuple(dict.fromkeys(named))
