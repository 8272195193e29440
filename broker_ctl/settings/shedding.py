"""What an overloaded broker gives up (reference: pulsar-load-management 4.3, 5)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.names import Namespace
from broker_ctl.core.shedding.catalog import SHEDDING
from broker_ctl.settings.model import Setting
from broker_ctl.settings.strategies import SHEDDING_STRATEGIES
from broker_ctl.settings.values import one_of

_STRATEGIES: Final = one_of([*SHEDDING.entries, "an entry point of broker_ctl.shedding"])


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """Shedding: what an overloaded broker gives up."""

    enabled: Annotated[
        bool,
        Setting("loadBalancerSheddingEnabled", "Shed bundles when leading.", is_dynamic=True),
    ] = True
    strategies: Annotated[
        tuple[str, ...],
        Setting(
            "loadBalancerLoadSheddingStrategy",
            "Policies that shed; the first that finds something to do has the cycle. Pulsar's "
            "class names may stand with their package.",
            allowed=_STRATEGIES,
            catalog=SHEDDING_STRATEGIES,
            is_dynamic=True,
        ),
    ] = ("balance",)
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingIntervalMinutes",
            "Pause from the end of one cycle to the start of the next.",
            at_least=0.001,
            is_dynamic=True,
        ),
    ] = 1.0
    grace_period_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingGracePeriodMinutes",
            "How long a bundle that was shed is left in peace.",
            is_dynamic=True,
        ),
    ] = 30.0
    threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerThresholdShedderPercentage",
            "Percentage points above the mean usage at which a broker sheds.",
            at_most=100,
            is_dynamic=True,
        ),
    ] = 10
    history_ratio: Annotated[
        float,
        Setting(
            "loadBalancerHistoryResourcePercentage",
            "Weight of the former average in a broker's moving average of usage.",
            at_least=0,
            below=1,
            is_dynamic=True,
        ),
    ] = 0.9
    min_throughput_mib_per_s: Annotated[
        float,
        Setting(
            "loadBalancerBundleUnloadMinThroughputThreshold",
            "Excess below which a broker sheds nothing.",
            is_dynamic=True,
        ),
    ] = 10.0
    lower_boundary_enabled: Annotated[
        bool,
        Setting(
            "lowerBoundarySheddingEnabled",
            "Also shed towards a broker that is far below the mean.",
            is_dynamic=True,
        ),
    ] = False
    excluded_namespaces: Annotated[
        tuple[Namespace, ...],
        Setting(
            "loadBalancerSheddingExcludedNamespaces",
            "Namespaces whose bundles are never shed.",
            allowed="tenant/namespace",
            is_dynamic=True,
        ),
    ] = ()

    average_low_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderLowThreshold",
            "AvgShedder: percentage points between a hot and a cool broker that count.",
            at_most=100,
            is_dynamic=True,
        ),
    ] = 15
    average_high_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHighThreshold",
            "AvgShedder: percentage points between the two that are acted on sooner.",
            at_most=100,
            is_dynamic=True,
        ),
    ] = 40
    average_low_hit_count: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHitCountLowThreshold",
            "AvgShedder: cycles in a row beyond the low threshold before bundles move.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 8
    average_high_hit_count: Annotated[
        int,
        Setting(
            "loadBalancerAvgShedderHitCountHighThreshold",
            "AvgShedder: cycles in a row beyond the high threshold before bundles move.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 2
    min_unload_msg_per_s: Annotated[
        int,
        Setting(
            "minUnloadMessage",
            "UniformLoadShedder, AvgShedder: message rate below which nothing is moved.",
            is_dynamic=True,
        ),
    ] = 1000
    min_unload_throughput_bytes: Annotated[
        int,
        Setting(
            "minUnloadMessageThroughput",
            "UniformLoadShedder, AvgShedder: bytes a second below which nothing is moved.",
            is_dynamic=True,
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
        ),
    ] = 0.2
    max_unload_bundles: Annotated[
        int,
        Setting(
            "maxUnloadBundleNumPerShedding",
            "UniformLoadShedder: bundles that are moved in one cycle; -1: no limit.",
            at_least=-1,
            is_dynamic=True,
        ),
    ] = -1
    rate_difference_percent: Annotated[
        float,
        Setting(
            "loadBalancerMsgRateDifferenceShedderThreshold",
            "UniformLoadShedder: by how much the highest message rate may exceed the lowest; 0: "
            "no limit.",
            is_dynamic=True,
        ),
    ] = 50.0
    throughput_multiple: Annotated[
        float,
        Setting(
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
            "UniformLoadShedder: how many times the lowest throughput the highest may be; 0: no "
            "limit.",
            is_dynamic=True,
        ),
    ] = 4.0
    target_std: Annotated[
        float,
        Setting(
            "loadBalancerBrokerLoadTargetStd",
            "TransferShedder: standard deviation of usage that is tolerated.",
            at_most=1,
            is_dynamic=True,
        ),
    ] = 0.25
    hit_count: Annotated[
        int,
        Setting(
            "loadBalancerSheddingConditionHitCountThreshold",
            "TransferShedder: uneven cycles in a row that do not count yet.",
            is_dynamic=True,
        ),
    ] = 3
    transfer_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerTransferEnabled",
            "TransferShedder: choose the receiver, and swap bundles with it; else placement does.",
            is_dynamic=True,
        ),
    ] = True
    max_brokers_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
            "TransferShedder: brokers that give something up in one cycle.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 3
    delay_s: Annotated[
        int,
        Setting(
            "loadBalanceSheddingDelayInSeconds",
            "TransferShedder: quiet time of the cluster after an unload.",
            is_dynamic=True,
        ),
    ] = 180
    max_reported_bundles: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
            "TransferShedder: heaviest bundles of a broker that are looked at; 0 or -1: all.",
            at_least=-1,
            is_dynamic=True,
        ),
    ] = 10

    policies_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSheddingBundlesWithPoliciesEnabled",
            "TransferShedder: also move bundles of isolated or anti-affine namespaces.",
            is_dynamic=True,
        ),
    ] = False

    @property
    def interval_s(self) -> float:
        """In seconds."""
        return self.interval_minutes * 60

    @property
    def grace_period_s(self) -> float:
        """In seconds."""
        return self.grace_period_minutes * 60

    @property
    def threshold_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.threshold_percent / 100

    @property
    def min_throughput_bytes_per_s(self) -> float:
        """In bytes a second."""
        return self.min_throughput_mib_per_s * 1024 * 1024
