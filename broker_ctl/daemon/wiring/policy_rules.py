"""The rules of the policies, from the settings."""

from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.core.rules.balance import BalanceRules, Band, SlowRules, Smoothing
from broker_ctl.core.rules.quiet_hours import NO_QUIET_HOURS, QuietHours
from broker_ctl.core.rules.rules import (
    Budgets,
    MergeRules,
    PlacementRules,
    SheddingRules,
    SplitRules,
)
from broker_ctl.core.rules.shedding import (
    AvgRules,
    DifferenceRules,
    OverloadRules,
    TransferRules,
    UniformRules,
)
from broker_ctl.core.rules.simple import SimpleRules
from broker_ctl.core.rules.surges import NO_SURGES, SurgeRules
from broker_ctl.core.strategies.catalog import BALANCE
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, SIMPLE
from broker_ctl.settings.root import Settings


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
