"""From settings to the values that policies take."""

from broker_ctl.core.rules import Budgets, PlacementRules, SheddingRules, SplitRules
from broker_ctl.settings.root import Settings


def shedding_rules(settings: Settings) -> SheddingRules:
    """When a broker has too much."""
    shedding = settings.shedding
    return SheddingRules(
        threshold_points=shedding.threshold_percent,
        history_ratio=shedding.history_ratio,
        min_throughput_bytes=shedding.min_throughput_bytes_per_s,
        is_lower_boundary_enabled=shedding.lower_boundary_enabled,
        grace_s=shedding.grace_period_s,
        excluded_namespaces=frozenset(shedding.excluded_namespaces),
        report_ttl_s=settings.load_report.ttl_s,
    )


def split_rules(settings: Settings) -> SplitRules:
    """When a bundle has too much to stay whole; it rests for one round of statistics after."""
    splitting = settings.splitting
    return SplitRules(
        algorithm=splitting.default_algorithm,
        max_topics=splitting.max_topics,
        max_sessions=max(splitting.max_sessions, 0),
        max_msg_rate=splitting.max_rate_msg_per_s,
        max_bandwidth_bytes=splitting.max_bandwidth_bytes_per_s,
        max_bundles_per_namespace=splitting.max_bundles,
        max_per_cycle=splitting.max_splits_per_cycle,
        cool_down_s=settings.load_report.stats_interval_s,
    )


def placement_rules(settings: Settings) -> PlacementRules:
    """Who may receive a bundle."""
    placement = settings.placement
    return PlacementRules(
        overloaded_ratio=placement.overloaded_threshold_ratio,
        max_topics=placement.max_topics,
        report_ttl_s=settings.load_report.ttl_s,
    )


def budgets(settings: Settings) -> Budgets:
    """How much may be disturbed at once."""
    balancing = settings.balancing
    return Budgets(
        max_moves_per_broker=balancing.max_moves_in_flight_per_broker,
        max_moves=balancing.max_moves_in_flight,
        hourly_load_ratio=balancing.max_load_moved_per_hour_percent / 100,
        cool_down_s=settings.shedding.grace_period_s,
    )
