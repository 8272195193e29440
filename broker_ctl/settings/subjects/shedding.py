"""Shedding of bundles, and single strategies of Pulsar (docs: pulsar-shedders)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.settings.conditions import BALANCED, ENABLED, MODULAR, SHEDDING_ENABLED, shedders
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.strategies import SHEDDING_STRATEGIES
from broker_ctl.settings.values import InSeconds, one_of

# Shedding of bundles from overloaded brokers (docs: pulsar-leader-tasks, pulsar-shedders).


_STRATEGIES: Final = one_of([*SHEDDING.entries, "an entry point of broker_ctl.shedding"])

# Keys that strategy balance reads in place of those of Pulsar's shedders.
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_STEADY: Final = "loadBalancerPlannerSteadySeconds"
_RECENT: Final = "loadBalancerPlannerRecentSeconds"
_CHURN: Final = "loadBalancerPlannerChurnPercentagePerHour"


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """Shedding: when brokers shed bundles, and how much."""

    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSheddingEnabled",
            "Whether the leader sheds bundles.",
            is_dynamic=True,
            used_with=ENABLED,
        ),
    ] = True
    strategies: Annotated[
        tuple[str, ...],
        Setting(
            "loadBalancerLoadSheddingStrategy",
            "Shedding strategies; the first one that finds something to shed decides the "
            "cycle. Pulsar's class names are accepted with or without their package.",
            allowed=_STRATEGIES,
            catalog=SHEDDING_STRATEGIES,
            is_dynamic=True,
            used_with=(*ENABLED, MODULAR),
        ),
    ] = ("balance",)
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingIntervalMinutes",
            "Pause between the end of one shedding cycle and the start of the next.",
            at_least=0.001,
            is_dynamic=True,
            used_with=SHEDDING_ENABLED,
        ),
    ] = 1.0
    grace_period_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingGracePeriodMinutes",
            "Time for which a bundle that was shed is not shed again.",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 30.0
    threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerThresholdShedderPercentage",
            "ThresholdShedder: percentage points above the mean usage at which a broker sheds.",
            at_most=100,
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_HIGH, _LOW),
        ),
    ] = 10
    history_ratio: Annotated[
        float,
        Setting(
            "loadBalancerHistoryResourcePercentage",
            "ThresholdShedder, TransferShedder: weight of the previous value in the moving "
            "average of a broker's usage.",
            at_least=0,
            below=1,
            is_dynamic=True,
            used_with=shedders("ThresholdShedder", "TransferShedder"),
            instead=(_STEADY, _RECENT),
        ),
    ] = 0.9
    min_throughput_mib_per_s: Annotated[
        float,
        Setting(
            "loadBalancerBundleUnloadMinThroughputThreshold",
            "ThresholdShedder: excess throughput below which a broker sheds nothing.",
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_CHURN,),
        ),
    ] = 10.0
    lower_boundary_enabled: Annotated[
        bool,
        Setting(
            "lowerBoundarySheddingEnabled",
            "ThresholdShedder: whether the most loaded broker also sheds when another is far "
            "below the mean usage.",
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_LOW,),
        ),
    ] = False
    excluded_namespaces: Annotated[
        tuple[Namespace, ...],
        Setting(
            "loadBalancerSheddingExcludedNamespaces",
            "Namespaces whose bundles are never shed.",
            allowed="tenant/namespace",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = ()

    interval_s = InSeconds("interval_minutes")
    grace_period_s = InSeconds("grace_period_minutes")

    @property
    def threshold_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.threshold_percent / 100

    @property
    def min_throughput_bytes_per_s(self) -> float:
        """In bytes per second."""
        return self.min_throughput_mib_per_s * 1024 * 1024


# Settings of single shedding strategies of Pulsar (docs: pulsar-shedders).


# Keys that strategy balance reads in place of those of Pulsar's shedders.


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
