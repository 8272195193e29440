"""Thresholds as values.

Defaults are Pulsar's where Pulsar has them (docs: pulsar-configuration), under the
`broker.conf` key that stands beside each field.
"""

from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.model.names import PERSISTENT, Namespace
from broker_ctl.core.rules.balance import BalanceRules
from broker_ctl.core.rules.shedding import (
    AvgRules,
    DifferenceRules,
    OverloadRules,
    TransferRules,
    UniformRules,
)

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SheddingRules:
    """When a broker sheds, and how much.

    Attributes:
        threshold_points: percentage points around the mean usage that are tolerated
            (loadBalancerBrokerThresholdShedderPercentage).
        history_ratio: weight of the past in the moving average
            (loadBalancerHistoryResourcePercentage).
        min_throughput_bytes: bytes/s below which unloading is not worth a disturbance
            (loadBalancerBundleUnloadMinThroughputThreshold, there in MiB).
        margin_ratio: unload this much more than what is above the threshold.
        is_lower_boundary_enabled: shed towards an idle broker even where none is overloaded
            (lowerBoundarySheddingEnabled).
        lower_boundary_ratio: how much of the threshold is shed towards an idle broker.
        grace_s: quiet time of a bundle after it was unloaded
            (loadBalancerSheddingGracePeriodMinutes).
        excluded_namespaces: never shed (loadBalancerSheddingExcludedNamespaces).
        report_ttl_s: an older report is ignored (loadBalancerBrokerLoadDataTTLInSeconds).
        overload, difference, uniform, avg, transfer, balance: what single strategies need besides.
    """

    threshold_points: float = 10.0
    history_ratio: float = 0.9
    min_throughput_bytes: float = 10.0 * MIB
    margin_ratio: float = 0.05
    is_lower_boundary_enabled: bool = False
    lower_boundary_ratio: float = 0.5
    grace_s: float = 30 * 60.0
    excluded_namespaces: frozenset[Namespace] = frozenset()
    report_ttl_s: float = 30 * 60.0
    overload: OverloadRules = field(default_factory=OverloadRules)
    difference: DifferenceRules = field(default_factory=DifferenceRules)
    uniform: UniformRules = field(default_factory=UniformRules)
    avg: AvgRules = field(default_factory=AvgRules)
    transfer: TransferRules = field(default_factory=TransferRules)
    balance: BalanceRules = field(default_factory=BalanceRules)

    @property
    def threshold_ratio(self) -> float:
        """The threshold as a fraction of a broker."""
        return self.threshold_points / 100


@dataclass(frozen=True, slots=True)
class SplitRules:
    """When a bundle is split; a limit of 0 means no limit.

    Attributes:
        algorithm: name in `splitting.catalog` (defaultNamespaceBundleSplitAlgorithm).
        max_topics: loadBalancerNamespaceBundleMaxTopics.
        max_sessions: producers and consumers
            (loadBalancerNamespaceBundleMaxSessions).
        max_msg_rate: msg/s in and out (loadBalancerNamespaceBundleMaxMsgRate).
        max_bandwidth_bytes: bytes/s in and out
            (loadBalancerNamespaceBundleMaxBandwidthMbytes, there in MiB).
        max_bundles_per_namespace: loadBalancerNamespaceMaximumBundles.
        min_topics: a bundle of fewer topics gains nothing by a split.
        max_per_cycle: loadBalancerMaxNumberOfBundlesToSplitPerCycle.
        cool_down_s: quiet time of a bundle after the split that made it. Pulsar has none and splits
            again on stale reports; one round of statistics is 60 s there.
        hit_count: consecutive rounds above a limit that are let pass before a bundle is split
            (loadBalancerNamespaceBundleSplitConditionHitCountThreshold). Pulsar's modular load
            manager lets none pass, its extensible one 3.
        flow_difference_ratio: how far above a limit a bundle must be for
            ``flow_or_qps_equally_divide`` to cut it (flowOrQpsDifferenceThresholdPercentage).
        is_unloading: what comes of a split may move to other brokers at once
            (loadBalancerAutoUnloadSplitBundlesEnabled).
        max_share_ratio: usage of a bundle over that of a mean broker
            (loadBalancerNamespaceBundleMaxBrokerPercentage, there in percent). The planner's own
            limit: what is as large as a tenth of a broker fits nowhere (docs: imbalance-bounds,
                planner-sources).
        share_algorithm: name in `splitting.catalog`, for what is split for its share: the middle of
            a range may be far from that of the load, and a share is meant to be halved.
        least_usage_ratio: usage of a broker below which no share is too large: where there is
            hardly any load nothing is gained.
    """

    algorithm: str = "range_equally_divide"
    max_topics: int = 1000
    max_sessions: int = 1000
    max_msg_rate: float = 30_000.0
    max_bandwidth_bytes: float = 100.0 * MIB
    max_bundles_per_namespace: int = 128
    min_topics: int = 2
    max_per_cycle: int = 10
    cool_down_s: float = 60.0
    hit_count: int = 0
    flow_difference_ratio: float = 0.1
    is_unloading: bool = True
    max_share_ratio: float = 0.0
    share_algorithm: str = "traffic_equally_divide"
    least_usage_ratio: float = 0.02


@dataclass(frozen=True, slots=True)
class MergeRules:
    """When two adjacent bundles are merged. Pulsar never merges.

    Attributes:
        limits: what is too much for one bundle; shares are shares of these.
        cold_ratio: share of every limit below which a bundle is cold
            (loadBalancerBundleMergeLoadPercentage).
        merged_ratio: share of every limit below which both together must be, or the next rise
            would split them again.
        hit_count: consecutive cold rounds that are let pass before two are merged
            (loadBalancerBundleMergeConditionHitCountThreshold).
        min_bundles: a namespace keeps at least this number
            (loadBalancerNamespaceMinimumBundles).
        max_per_cycle: loadBalancerMaxNumberOfBundlesToMergePerCycle.
        cool_down_s: quiet time of a bundle after the split or merge that made it
            (loadBalancerBundleMergeCoolDownMinutes).
    """

    limits: SplitRules = SplitRules()
    cold_ratio: float = 0.1
    merged_ratio: float = 0.5
    hit_count: int = 30
    min_bundles: int = 4
    max_per_cycle: int = 2
    cool_down_s: float = 60 * 60.0


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Which brokers may receive a bundle.

    Attributes:
        overloaded_ratio: usage above which a broker is the last choice
            (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
        max_topics: topics above which a broker is passed over (loadBalancerBrokerMaxTopics).
        usage_difference_ratio: how far below the mean usage a broker must be for
            `LeastResourceUsageWithWeight` to prefer it
            (loadBalancerAverageResourceUsageDifferenceThresholdPercentage, there in percent).
        is_spread_evenly: only brokers with the fewest bundles of the namespace receive
            (loadBalancerDistributeBundlesEvenlyEnabled).
        has_failure_domains: anti-affinity looks at failure domains before it looks at brokers
            (failureDomainsEnabled).
        prefers_later_versions: only brokers of the latest version receive (preferLaterVersions).
        excluded_namespaces: placed in turn, whatever the load, since nothing is shed of them
            (loadBalancerSheddingExcludedNamespaces).
        report_ttl_s: as in `SheddingRules`.
        domain: of the topic that was looked up; persistent without a lookup.
    """

    overloaded_ratio: float = 0.85
    max_topics: int = 50_000
    usage_difference_ratio: float = 0.1
    is_spread_evenly: bool = False
    has_failure_domains: bool = False
    prefers_later_versions: bool = False
    excluded_namespaces: frozenset[Namespace] = frozenset()
    report_ttl_s: float = 30 * 60.0
    domain: str = PERSISTENT


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits on concurrent and hourly moves. Pulsar has no such limits.

    Attributes:
        max_moves_per_broker: moves in flight that a broker takes part in, giving or receiving
            (loadBalancerMaxMovesInFlightPerBroker).
        max_moves: moves in flight in the cluster (loadBalancerMaxMovesInFlight).
        hourly_load_ratio: bytes/s moved within an hour, over bytes/s of the cluster
            (loadBalancerMaxLoadMovedPerHourPercentage). The first move of an hour is always
            allowed, or a bundle above the budget could never move.
        cool_down_s: quiet time of a bundle after a move, whichever policy asks for the next.
        namespace_ratio: part of a namespace's bundles that may move at once, at least one bundle.
    """

    max_moves_per_broker: int = 2
    max_moves: int = 8
    hourly_load_ratio: float = 1.0
    cool_down_s: float = 30 * 60.0
    namespace_ratio: float = 0.25
