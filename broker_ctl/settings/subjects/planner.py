"""The planner of broker-ctl, strategy ``balance`` (docs: planner-sources)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.core.rules.limits import NO_QUIET_HOURS, QUIET_HOURS_ALLOWED, QuietHours
from broker_ctl.core.strategies.shedding_strategies import BALANCE
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
from broker_ctl.settings.values import InSeconds


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Planner: strategy balance, one objective for shedding, placement and splitting."""

    high_percent: Annotated[
        int,
        Setting(
            "loadBalancerPlannerHighPercentage",
            "Usage, relative to the mean usage, above which a broker sheds.",
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
            "Usage, relative to the mean usage, down to which a broker sheds and up to which a "
            "broker receives.",
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
            "Current usage, relative to the mean usage, above which a broker sheds "
            "immediately, even in quiet hours.",
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
            "Maximum share of the cluster's throughput that may move within one hour for moves "
            "that are not urgent.",
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
            "Half-life of the long-term average of a bundle's demand.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 1200.0
    recent_s: Annotated[
        float,
        Setting(
            "loadBalancerPlannerRecentSeconds",
            "Half-life of the short-term average of a bundle's demand.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 60.0
    return_minutes: Annotated[
        float,
        Setting(
            "loadBalancerPlannerReturnMinutes",
            "Time for which a bundle does not return to a broker that it left.",
            at_least=0,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 65.0
    surge_times: Annotated[
        float,
        Setting(
            "loadBalancerSurgeMultiple",
            "Growth of a bundle's or tenant's traffic within a minute that the leader answers "
            "at the next load report, within the budgets, instead of at the next check; 0: none.",
            at_least=0,
            at_most=1000,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 10.0
    max_share_percent: Annotated[
        float,
        Setting(
            "loadBalancerNamespaceBundleMaxBrokerPercentage",
            "Share of a mean broker's usage above which strategy balance splits a bundle; 0: "
            "no limit.",
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
            "Times at which only brokers above the severe threshold shed. With "
            "loadBalancerQuietHoursHoldSplits, splits and merges wait too.",
            allowed=QUIET_HOURS_ALLOWED,
            is_dynamic=True,
            used_with=(either(all_of(*BALANCING), HOLDING_SPLITS),),
        ),
    ] = NO_QUIET_HOURS
    headroom_percent: Annotated[
        int,
        Setting(
            "loadBalancerHeadroomLimitPercentage",
            "Usage of the remaining brokers after the loss of one above which the cluster is "
            "reported as too small.",
            at_least=1,
            at_most=100,
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = 85

    return_s = InSeconds("return_minutes")
