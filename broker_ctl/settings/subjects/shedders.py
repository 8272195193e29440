"""Settings of single shedding strategies of Pulsar (docs: pulsar-shedders)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.conditions import shedders
from broker_ctl.settings.schema import Setting

# Keys that strategy balance reads in place of those of Pulsar's shedders.
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_STEADY: Final = "loadBalancerPlannerSteadySeconds"
_RECENT: Final = "loadBalancerPlannerRecentSeconds"
_CHURN: Final = "loadBalancerPlannerChurnPercentagePerHour"
_SEVERE: Final = "loadBalancerPlannerSeverePercentage"
_RETURN: Final = "loadBalancerPlannerReturnMinutes"


@dataclass(frozen=True, slots=True)
class ShedderSettings:
    """Shedders: further settings of UniformLoadShedder, AvgShedder and TransferShedder."""

    average_low_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderLowThreshold",
            "AvgShedder: difference, in percentage points, between a hot and a cool broker "
            "above which bundles move.",
            at_most=100,
            is_dynamic=True,
            used_with=shedders("AvgShedder"),
            instead=(_HIGH, _LOW),
        ),
    ] = 15
    average_high_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHighThreshold",
            "AvgShedder: difference, in percentage points, above which bundles move sooner.",
            at_most=100,
            is_dynamic=True,
            used_with=shedders("AvgShedder"),
            instead=(_SEVERE,),
        ),
    ] = 40
    average_low_hit_count: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHitCountLowThreshold",
            "AvgShedder: number of consecutive cycles above the low threshold before bundles move.",
            at_least=1,
            is_dynamic=True,
            used_with=shedders("AvgShedder"),
            instead=(_STEADY,),
        ),
    ] = 8
    average_high_hit_count: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHitCountHighThreshold",
            "AvgShedder: number of consecutive cycles above the high threshold before bundles "
            "move.",
            at_least=1,
            is_dynamic=True,
            used_with=shedders("AvgShedder"),
            instead=(_RECENT,),
        ),
    ] = 2
    min_unload_msg_per_s: Annotated[
        int,
        Setting(
            "minUnloadMessage",
            "UniformLoadShedder, AvgShedder: message rate below which nothing is unloaded.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder", "AvgShedder"),
            instead=(_CHURN,),
        ),
    ] = 1000
    min_unload_bytes_per_s: Annotated[
        int,
        Setting(
            "minUnloadMessageThroughput",
            "UniformLoadShedder, AvgShedder: throughput below which nothing is unloaded.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder", "AvgShedder"),
            instead=(_CHURN,),
        ),
    ] = 1_048_576
    max_unload_ratio: Annotated[
        float,
        Setting(
            "maxUnloadPercentage",
            "UniformLoadShedder, AvgShedder: fraction of the difference that is unloaded; 0.5 "
            "makes both brokers equal.",
            above=0,
            at_most=1,
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder", "AvgShedder"),
            instead=(_LOW, _CHURN),
        ),
    ] = 0.2
    max_unload_bundles: Annotated[
        int,
        Setting(
            "maxUnloadBundleNumPerShedding",
            "UniformLoadShedder: maximum number of bundles unloaded in one cycle; -1: no limit.",
            at_least=-1,
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder"),
            instead=(_CHURN,),
        ),
    ] = -1
    rate_difference_percent: Annotated[
        float,
        Setting(
            "loadBalancerMsgRateDifferenceShedderThreshold",
            "UniformLoadShedder: maximum excess of the highest message rate over the lowest; "
            "0: no limit.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder"),
            instead=(_HIGH,),
        ),
    ] = 50.0
    throughput_multiple: Annotated[
        float,
        Setting(
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
            "UniformLoadShedder: maximum ratio of the highest throughput to the lowest; 0: no "
            "limit.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder"),
            instead=(_HIGH,),
        ),
    ] = 4.0
    target_std: Annotated[
        float,
        Setting(
            "loadBalancerBrokerLoadTargetStd",
            "TransferShedder: tolerated standard deviation of usage.",
            at_most=1,
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_HIGH, _LOW),
        ),
    ] = 0.25
    hit_count: Annotated[
        int,
        Setting(
            "loadBalancerSheddingConditionHitCountThreshold",
            "TransferShedder: number of consecutive unbalanced cycles tolerated before shedding.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_STEADY,),
        ),
    ] = 3
    transfer_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerTransferEnabled",
            "TransferShedder: whether it selects the receiver, and swaps bundles with it; if "
            "false, the placement strategy selects.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = True
    max_brokers_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
            "TransferShedder: maximum number of brokers that shed in one cycle.",
            at_least=1,
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_CHURN,),
        ),
    ] = 3
    delay_s: Annotated[
        int,
        Setting(
            "loadBalanceSheddingDelayInSeconds",
            "TransferShedder: pause of shedding in the cluster after an unload.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_CHURN, _RETURN),
        ),
    ] = 180
    max_reported_bundles: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
            "TransferShedder: number of a broker's heaviest bundles that are considered; 0 or "
            "-1: all.",
            at_least=-1,
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = 10
    policies_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSheddingBundlesWithPoliciesEnabled",
            "TransferShedder: whether bundles of namespaces with isolation or anti-affinity "
            "policies may be unloaded.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = False
