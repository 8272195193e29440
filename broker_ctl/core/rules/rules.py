"""Thresholds as values.

Defaults are Pulsar's if Pulsar has the setting (docs: pulsar-configuration). The `broker.conf` key
of each field is in parentheses.
"""

from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.model.names import PERSISTENT, Namespace
from broker_ctl.core.rules.balance import BalanceRules
from broker_ctl.core.rules.limits import NO_BROKER_LIMITS, BrokerLimits
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
        min_throughput_bytes: minimum throughput to unload, in bytes/s; less is not worth the
            disturbance (loadBalancerBundleUnloadMinThroughputThreshold, there in MiB).
        margin_ratio: fraction of usage that is unloaded in addition to the excess over the
            threshold.
        is_lower_boundary_enabled: whether to shed towards an idle broker even if no broker is
            overloaded (lowerBoundarySheddingEnabled).
        lower_boundary_ratio: fraction of the threshold that is shed towards an idle broker.
        grace_s: seconds after an unload during which a bundle is not unloaded again
            (loadBalancerSheddingGracePeriodMinutes).
        excluded_namespaces: namespaces whose bundles are never shed
            (loadBalancerSheddingExcludedNamespaces).
        report_ttl_s: age in seconds above which a report is ignored
            (loadBalancerBrokerLoadDataTTLInSeconds).
        overload, difference, uniform, avg, transfer, balance: rules of single strategies.
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
        """The threshold as a fraction of a broker's capacity."""
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
        min_topics: minimum number of topics of a bundle that may be split.
        max_per_cycle: loadBalancerMaxNumberOfBundlesToSplitPerCycle.
        cool_down_s: seconds after a split during which its children are not split again. Pulsar
            has no such time and splits again on stale reports; its statistics are 60 s apart.
        hit_count: number of consecutive rounds above a limit that are tolerated before a bundle
            is split (loadBalancerNamespaceBundleSplitConditionHitCountThreshold). Pulsar's modular
            load manager tolerates none, its extensible one 3.
        flow_difference_ratio: excess over a limit from which on ``flow_or_qps_equally_divide``
            splits a bundle (flowOrQpsDifferenceThresholdPercentage).
        is_unloading: whether the children of a split may move to other brokers immediately
            (loadBalancerAutoUnloadSplitBundlesEnabled).
        max_share_ratio: maximum usage of a bundle, relative to a mean broker
            (loadBalancerNamespaceBundleMaxBrokerPercentage, there in percent). broker-ctl's own
            limit: bundles larger than a tenth of a broker are hard to place (docs:
            imbalance-bounds, planner-sources).
        share_algorithm: name in `splitting.catalog` of the algorithm for bundles above
            ``max_share_ratio``: it should halve the load, not the range.
        least_usage_ratio: usage of a mean broker below which ``max_share_ratio`` does not apply: in
            an idle cluster a split gains nothing.
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
        limits: limits of a bundle, as for splits; the ratios refer to these limits.
        cold_ratio: fraction of every limit below which a bundle is cold
            (loadBalancerBundleMergeLoadPercentage).
        merged_ratio: fraction of every limit below which the merged bundle must be; otherwise the
            next rise of load would split it again.
        hit_count: number of consecutive cold rounds that are tolerated before two bundles are
            merged (loadBalancerBundleMergeConditionHitCountThreshold).
        min_bundles: minimum number of bundles of a namespace
            (loadBalancerNamespaceMinimumBundles).
        max_per_cycle: loadBalancerMaxNumberOfBundlesToMergePerCycle.
        cool_down_s: seconds after a split or merge during which the new bundle is not merged
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
        overloaded_ratio: usage above which a broker receives bundles only if all are that full
            (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
        max_topics: number of topics above which a broker receives bundles only if all have that
            many (loadBalancerBrokerMaxTopics).
        usage_difference_ratio: minimum distance below the mean usage at which
            `LeastResourceUsageWithWeight` prefers a broker
            (loadBalancerAverageResourceUsageDifferenceThresholdPercentage, there in percent).
        is_spread_evenly: whether only brokers with the fewest bundles of the namespace receive
            bundles (loadBalancerDistributeBundlesEvenlyEnabled).
        has_failure_domains: whether anti-affinity spreads over failure domains first, then over
            brokers (failureDomainsEnabled).
        prefers_later_versions: whether only brokers of the latest version receive bundles
            (preferLaterVersions).
        excluded_namespaces: namespaces whose bundles are placed round-robin, regardless of load,
            because they are never shed (loadBalancerSheddingExcludedNamespaces).
        report_ttl_s: as in `SheddingRules`.
        domain: domain of the topic that was looked up; persistent if there was no lookup.
        limits: what no broker receives beyond (loadBalancerBrokerLimits).
        topic_cap: most partitions of a topic that a broker receives; 0: any number
            (loadBalancerTopicPartitionsPerBroker).
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
    limits: BrokerLimits = NO_BROKER_LIMITS
    topic_cap: int = 0


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits on concurrent and hourly moves. Pulsar has no such limits.

    Attributes:
        max_moves_per_broker: maximum number of moves in flight from or to one broker
            (loadBalancerMaxMovesInFlightPerBroker).
        max_moves: maximum number of moves in flight in the cluster (loadBalancerMaxMovesInFlight).
        hourly_load_ratio: bytes/s moved within an hour, over bytes/s of the cluster
            (loadBalancerMaxLoadMovedPerHourPercentage). The first move of an hour is always
            allowed, or a bundle above the budget could never move.
        cool_down_s: seconds after a move during which a bundle does not move again, whichever
            strategy proposes it.
        namespace_ratio: maximum fraction of a namespace's bundles that may move at once; at least
            one bundle may.
    """

    max_moves_per_broker: int = 2
    max_moves: int = 8
    hourly_load_ratio: float = 1.0
    cool_down_s: float = 30 * 60.0
    namespace_ratio: float = 0.25
