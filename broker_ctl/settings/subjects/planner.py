"""Our own planner, strategy ``balance`` (docs: planner-sources)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.core.rules.quiet_hours import ALLOWED, NO_QUIET_HOURS, QuietHours
from broker_ctl.core.strategies.catalog import BALANCE
from broker_ctl.settings.conditions import (
    BALANCING,
    HOLDING_SPLITS,
    MODULAR,
    RESHAPING_ENABLED,
    all_of,
    either,
    where,
)
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Planner: strategy balance, one objective for shedding, placement and splitting."""

    high_percent: Annotated[
        int,
        Setting(
            "loadBalancerPlannerHighPercentage",
            "Usage, in percent of the mean usage, above which a broker gives.",
            at_least=101,
            at_most=1000,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 108
    low_percent: Annotated[
        int,
        Setting(
            "loadBalancerPlannerLowPercentage",
            "Usage, in percent of the mean usage, down to which a broker gives, and beyond which "
            "none receives.",
            at_least=100,
            at_most=1000,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 104
    severe_percent: Annotated[
        int,
        Setting(
            "loadBalancerPlannerSeverePercentage",
            "Usage at the moment, in percent of the mean usage, above which a broker gives at "
            "once, quiet hours or not.",
            at_least=101,
            at_most=1000,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 114
    churn_percent: Annotated[
        float,
        Setting(
            "loadBalancerPlannerChurnPercentagePerHour",
            "Share of the cluster's throughput that may move within an hour where nothing is "
            "urgent.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 25.0
    steady_s: Annotated[
        float,
        Setting(
            "loadBalancerPlannerSteadySeconds",
            "After so long a reading counts half in what a bundle is taken to demand steadily.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 1200.0
    recent_s: Annotated[
        float,
        Setting(
            "loadBalancerPlannerRecentSeconds",
            "After so long a reading counts half in what a bundle is taken to demand just now.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 60.0
    return_minutes: Annotated[
        float,
        Setting(
            "loadBalancerPlannerReturnMinutes",
            "How long a bundle does not come back to a broker that it left.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 65.0
    max_share_percent: Annotated[
        float,
        Setting(
            "loadBalancerNamespaceBundleMaxBrokerPercentage",
            "Share of a mean broker's usage above which balance has a bundle split; 0: no limit.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=(
                *RESHAPING_ENABLED,
                MODULAR,
                where("loadBalancerLoadSheddingStrategy", BALANCE),
            ),
        ),
    ] = 10.0
    quiet_hours: Annotated[
        QuietHours,
        Setting(
            "loadBalancerQuietHours",
            "When only a broker that is far above the mean gives; loadBalancerQuietHoursHoldSplits "
            "holds splits too.",
            allowed=ALLOWED,
            is_dynamic=True,
            used_with=(either(all_of(*BALANCING), HOLDING_SPLITS),),
        ),
    ] = NO_QUIET_HOURS
    headroom_percent: Annotated[
        int,
        Setting(
            "loadBalancerHeadroomLimitPercentage",
            "Usage of the others, were one broker lost, above which the cluster is told to be too "
            "small.",
            at_least=1,
            at_most=100,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 85

    @property
    def return_s(self) -> float:
        """In seconds."""
        return self.return_minutes * 60
