"""What the leader's loop takes from the settings."""

from broker_ctl.core.placement.catalog import PLACEMENT
from broker_ctl.core.shedding.catalog import SHEDDING
from broker_ctl.daemon.rules import budgets, placement_rules, shedding_rules, split_rules
from broker_ctl.leader.rules import LeaderRules
from broker_ctl.settings.root import Settings

# Reports of a whole round, so that the first cycle does not decide on half of the brokers.
_SETTLE_REPORTS = 2


def leader_rules(settings: Settings) -> LeaderRules:
    """Policies with their rules, and the intervals."""
    shedding, splitting = settings.shedding, settings.splitting
    balancing, session = settings.balancing, settings.session
    is_shedding = balancing.enabled and shedding.enabled
    is_splitting = balancing.enabled and splitting.enabled
    return LeaderRules(
        placement=PLACEMENT.find(settings.placement.strategy),
        shedding=SHEDDING.find(shedding.strategy) if is_shedding else None,
        splitting=split_rules(settings) if is_splitting else None,
        shedding_rules=shedding_rules(settings),
        placement_rules=placement_rules(settings),
        budgets=budgets(settings),
        weights=settings.load_report.weights,
        shedding_interval_s=shedding.interval_s,
        splitting_interval_s=splitting.interval_s,
        quota_interval_s=balancing.quota_interval_s,
        is_dry_run=balancing.dry_run,
        settle_s=_SETTLE_REPORTS * settings.load_report.min_interval_s,
        reclaim_grace_s=session.reclaim_grace_s,
        unload_s=session.bundle_unloading_timeout_s,
    )
