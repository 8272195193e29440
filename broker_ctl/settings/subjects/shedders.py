"""What single shedders of Pulsar need besides (docs: pulsar-shedders)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.settings.conditions import shedders
from broker_ctl.settings.schema import Setting

# What strategy balance reads in place of the keys of Pulsar's shedders.
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_STEADY: Final = "loadBalancerPlannerSteadySeconds"
_RECENT: Final = "loadBalancerPlannerRecentSeconds"
_CHURN: Final = "loadBalancerPlannerChurnPercentagePerHour"
_SEVERE: Final = "loadBalancerPlannerSeverePercentage"
_RETURN: Final = "loadBalancerPlannerReturnMinutes"


@dataclass(frozen=True, slots=True)
class ShedderSettings:
    """Shedders: what UniformLoadShedder, AvgShedder and TransferShedder need besides."""

    average_low_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderLowThreshold",
            "AvgShedder: percentage points between a hot and a cool broker that count.",
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
            "AvgShedder: percentage points between the two that are acted on sooner.",
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
            "AvgShedder: cycles in a row beyond the low threshold before bundles move.",
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
            "AvgShedder: cycles in a row beyond the high threshold before bundles move.",
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
            "UniformLoadShedder, AvgShedder: message rate below which nothing is moved.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder", "AvgShedder"),
            instead=(_CHURN,),
        ),
    ] = 1000
    min_unload_throughput_bytes: Annotated[
        int,
        Setting(
            "minUnloadMessageThroughput",
            "UniformLoadShedder, AvgShedder: bytes a second below which nothing is moved.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder", "AvgShedder"),
            instead=(_CHURN,),
        ),
    ] = 1_048_576
    max_unload_ratio: Annotated[
        float,
        Setting(
            "maxUnloadPercentage",
            "UniformLoadShedder, AvgShedder: part of the difference that is moved; 0.5 makes the "
            "two equal.",
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
            "UniformLoadShedder: bundles that are moved in one cycle; -1: no limit.",
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
            "UniformLoadShedder: by how much the highest message rate may exceed the lowest; 0: "
            "no limit.",
            is_dynamic=True,
            used_with=shedders("UniformLoadShedder"),
            instead=(_HIGH,),
        ),
    ] = 50.0
    throughput_multiple: Annotated[
        float,
        Setting(
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
            "UniformLoadShedder: how many times the lowest throughput the highest may be; 0: no "
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
            "TransferShedder: standard deviation of usage that is tolerated.",
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
            "TransferShedder: uneven cycles in a row that do not count yet.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_STEADY,),
        ),
    ] = 3
    transfer_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerTransferEnabled",
            "TransferShedder: choose the receiver, and swap bundles with it; else placement does.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = True
    max_brokers_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
            "TransferShedder: brokers that give something up in one cycle.",
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
            "TransferShedder: quiet time of the cluster after an unload.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
            instead=(_CHURN, _RETURN),
        ),
    ] = 180
    max_reported_bundles: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
            "TransferShedder: heaviest bundles of a broker that are looked at; 0 or -1: all.",
            at_least=-1,
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = 10
    policies_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSheddingBundlesWithPoliciesEnabled",
            "TransferShedder: also move bundles of isolated or anti-affine namespaces.",
            is_dynamic=True,
            used_with=shedders("TransferShedder"),
        ),
    ] = False
