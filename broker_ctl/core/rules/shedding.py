"""Thresholds of the shedding strategies as values, each under its `broker.conf` key.

Defaults are Pulsar's (docs: pulsar-configuration). Settings of several strategies are in
`core.rules.SheddingRules`, which holds these.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverloadRules:
    """When a broker is overloaded, regardless of the others (5.1).

    Attributes:
        overloaded_ratio: usage from which on it is
            (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
    """

    overloaded_ratio: float = 0.85


@dataclass(frozen=True, slots=True)
class DifferenceRules:
    """How much of the difference between two brokers is unloaded (5.3, 5.4).

    Attributes:
        max_ratio: part of the difference; 0.5 makes the two equal (maxUnloadPercentage).
        min_msg_rate: msg/s below which unloading is not worth a disturbance (minUnloadMessage).
        min_throughput_bytes: bytes/s, likewise (minUnloadMessageThroughput).
    """

    max_ratio: float = 0.2
    min_msg_rate: float = 1000.0
    min_throughput_bytes: float = 1024.0 * 1024.0


@dataclass(frozen=True, slots=True)
class UniformRules:
    """When the highest and the lowest broker are too far apart (5.3); 0 means no limit.

    Attributes:
        msg_rate_percent: by how much the highest message rate may exceed the lowest
            (loadBalancerMsgRateDifferenceShedderThreshold).
        throughput_multiple: how many times the lowest throughput the highest may be
            (loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold).
        max_bundles: most bundles of one cycle; None: unlimited (maxUnloadBundleNumPerShedding,
            there -1).
    """

    msg_rate_percent: float = 50.0
    throughput_multiple: float = 4.0
    max_bundles: int | None = None


@dataclass(frozen=True, slots=True)
class AvgRules:
    """When the difference within a pair of brokers is too large, and for how long (5.4).

    Attributes:
        low_points: difference of usage in percentage points
            (loadBalancerAvgShedderLowThreshold).
        high_points: one that is acted on sooner (loadBalancerAvgShedderHighThreshold).
        low_hits: cycles in a row (loadBalancerAvgShedderHitCountLowThreshold).
        high_hits: cycles in a row (loadBalancerAvgShedderHitCountHighThreshold).
    """

    low_points: float = 15.0
    high_points: float = 40.0
    low_hits: int = 8
    high_hits: int = 2


@dataclass(frozen=True, slots=True)
class TransferRules:
    """When the cluster is too uneven, and how much is moved (5.5).

    Attributes:
        target_std: standard deviation of usage that is tolerated
            (loadBalancerBrokerLoadTargetStd).
        hits: cycles in a row that do not count yet
            (loadBalancerSheddingConditionHitCountThreshold).
        max_brokers: brokers that give in one cycle
            (loadBalancerMaxNumberOfBrokerSheddingPerCycle).
        delay_s: quiet time of the cluster after an unload
            (loadBalanceSheddingDelayInSeconds).
        top_bundles: heaviest bundles of a broker that are looked at
            (loadBalancerMaxNumberOfBundlesInBundleLoadReport); 0 is all.
        is_transfer_enabled: the receiver is chosen here, and may give bundles back; else the
            placement chooses (loadBalancerTransferEnabled).
        is_constrained_moved: also bundles of isolated or anti-affine namespaces
            (loadBalancerSheddingBundlesWithPoliciesEnabled).
        sample_s: time for which one sample stands in the moving average
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
