"""Thresholds of the shedding strategies as values, each under its `broker.conf` key.

Defaults are Pulsar's (docs: pulsar-configuration). Settings of several strategies are in
`core.rules.SheddingRules`, which holds these.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverloadRules:
    """When a broker is overloaded, regardless of the other brokers.

    Attributes:
        overloaded_ratio: usage from which on a broker is overloaded
            (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
    """

    overloaded_ratio: float = 0.85


@dataclass(frozen=True, slots=True)
class DifferenceRules:
    """How much of the difference between two brokers is unloaded.

    Attributes:
        max_ratio: fraction of the difference that is unloaded; 0.5 makes both brokers equal
            (maxUnloadPercentage).
        min_msg_rate: minimum message rate to unload, in msg/s; less is not worth the disturbance
            (minUnloadMessage).
        min_throughput_bytes: minimum throughput to unload, in bytes/s
            (minUnloadMessageThroughput).
    """

    max_ratio: float = 0.2
    min_msg_rate: float = 1000.0
    min_throughput_bytes: float = 1024.0 * 1024.0


@dataclass(frozen=True, slots=True)
class UniformRules:
    """When the traffic of the most and the least loaded broker is too far apart; 0: no limit.

    Attributes:
        msg_rate_percent: maximum excess of the highest message rate over the lowest, in percent
            (loadBalancerMsgRateDifferenceShedderThreshold).
        throughput_multiple: maximum ratio of the highest to the lowest throughput
            (loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold).
        max_bundles: maximum number of bundles unloaded in one cycle; None: unlimited
            (maxUnloadBundleNumPerShedding, there -1).
    """

    msg_rate_percent: float = 50.0
    throughput_multiple: float = 4.0
    max_bundles: int | None = None


@dataclass(frozen=True, slots=True)
class AvgRules:
    """When the usage of a pair of brokers differs too much, and for how long.

    Attributes:
        low_points: low threshold of the difference, in percentage points
            (loadBalancerAvgShedderLowThreshold).
        high_points: high threshold of the difference, in percentage points
            (loadBalancerAvgShedderHighThreshold).
        low_hits: number of consecutive cycles above the low threshold before load is moved
            (loadBalancerAvgShedderHitCountLowThreshold).
        high_hits: number of consecutive cycles above the high threshold before load is moved
            (loadBalancerAvgShedderHitCountHighThreshold).
    """

    low_points: float = 15.0
    high_points: float = 40.0
    low_hits: int = 8
    high_hits: int = 2


@dataclass(frozen=True, slots=True)
class TransferRules:
    """When the cluster is too unbalanced, and how much load is moved.

    Attributes:
        target_std: tolerated standard deviation of usage (loadBalancerBrokerLoadTargetStd).
        hits: number of consecutive unbalanced cycles tolerated before shedding
            (loadBalancerSheddingConditionHitCountThreshold).
        max_brokers: maximum number of brokers that shed in one cycle
            (loadBalancerMaxNumberOfBrokerSheddingPerCycle).
        delay_s: seconds after an unload during which the cluster sheds nothing
            (loadBalanceSheddingDelayInSeconds).
        top_bundles: number of a broker's heaviest bundles that are considered; 0: all
            (loadBalancerMaxNumberOfBundlesInBundleLoadReport).
        is_transfer_enabled: whether the strategy chooses the receiver, which may give bundles in
            return; otherwise the placement strategy chooses (loadBalancerTransferEnabled).
        is_constrained_moved: whether bundles of isolated or anti-affine namespaces may move
            (loadBalancerSheddingBundlesWithPoliciesEnabled).
        sample_s: seconds that one sample of the moving average represents
            (loadBalancerReportUpdateMinIntervalMillis).
    """

    target_std: float = 0.25
    hits: int = 3
    max_brokers: int = 3
    delay_s: float = 180.0
    top_bundles: int = 10
    is_transfer_enabled: bool = True
    is_constrained_moved: bool = False
    sample_s: float = 5.0
