"""The leader's rules, from the settings."""

from typing import Any

from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.core.cluster.mass_loss import MassLossRules
from broker_ctl.core.rules.surges import NO_SURGES
from broker_ctl.core.strategies.placement.policy import PlacementPolicy
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.simple.placement import SimplePlacement
from broker_ctl.core.strategies.simple.shedding import SimpleShedder
from broker_ctl.daemon.wiring.policy_rules import (
    budgets,
    is_simple_manager,
    merge_rules,
    placement_rules,
    reclaim_grace_s,
    shedding_rules,
    simple_rules,
    split_rules,
    surge_rules,
    whole_hours,
)
from broker_ctl.settings.root import Settings
from broker_ctl.settings.strategies import PLACEMENT_STRATEGIES, shedding_policy

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
