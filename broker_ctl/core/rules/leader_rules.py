"""Thresholds of the leader as values, each under its `broker.conf` key."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.model.names import PERSISTENT, Namespace
from broker_ctl.core.rules.limits import NO_BROKER_LIMITS, BrokerLimits, QuietHours

# Thresholds of the planner as values, each under its `broker.conf` key.


@dataclass(frozen=True, slots=True)
class Band:
    """When a broker is too full, and how far it is relieved; relative to the mean usage.

    Attributes:
        high: usage above which a broker sheds.
        low: target usage of a relieved broker; no receiver exceeds it.
        least: minimum excess over the mean usage (1.0 is a full broker) that justifies a move: in
            an idle cluster balancing gains nothing.
    """

    high: float = 1.08
    low: float = 1.04
    least: float = 0.02

    def trigger(self, mean: float) -> float:
        """Usage above which a broker sheds."""
        return max(self.high * mean, mean + self.least)

    def target(self, mean: float) -> float:
        """Usage to which a broker is relieved, and which no receiver exceeds."""
        return max(self.low * mean, mean + self.least / 2)


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How readings become averages of demand.

    Attributes:
        recent_s: half-life of the recent average.
        steady_s: half-life of the steady average.
        change_ratio: deviation of the recent from the steady demand, relative to the steady one,
            from which a bundle counts as changed permanently.
        most_swings: number of such changes lately from which on a bundle keeps its average.
        swing_s: time after which a change counts half.
    """

    recent_s: float = 60.0
    steady_s: float = 1200.0
    change_ratio: float = 0.5
    most_swings: float = 2.0
    swing_s: float = 2 * 3600.0


@dataclass(frozen=True, slots=True)
class BurstRules:
    """When bursts that come back every hour are planned for.

    Attributes:
        is_enabled: whether they are looked for.
        ratio: load of a burst over the median of its hour, in each of the last hours.
        least_ratio: least share of the cluster's load by which a slot of the hour must rise.
        most_slots: most slots of the hour that are planned for, those of the largest bursts.
    """

    is_enabled: bool = True
    ratio: float = 1.5
    least_ratio: float = 0.03
    most_slots: int = 8


@dataclass(frozen=True, slots=True)
class SlowRules:
    """When a broker is slow, and the consequences.

    Attributes:
        is_enabled: loadBalancerSlowBrokerDetectionEnabled.
        is_removing: a broker with ``removed_score`` is drained
            (loadBalancerSlowBrokerRemovalEnabled).
        peers_times: cost above the median of the peers (loadBalancerSlowBrokerPeersMultiple).
        own_times: above the 90th percentile of its own history
            (loadBalancerSlowBrokerHistoryMultiple).
        history_samples: number of rounds in the history.
        min_samples: with fewer samples a broker has no usable history.
        min_throughput_bytes: bytes/s below which a broker is not judged
            (loadBalancerSlowBrokerMinThroughputKbytes, there in KiB).
        min_usage_ratio: usage below which a broker is not judged
            (loadBalancerSlowBrokerMinUsagePercentage).
        report_age_s: a broker whose report is older is slow
            (loadBalancerBrokerLoadDataTTLInSeconds).
        demoted_score: score at which a broker receives no bundles
            (loadBalancerSlowBrokerDemotionScore).
        removed_score: score at which a broker is drained, and the maximum score, so that a broker
            that recovers is trusted again after at most this number of rounds
            (loadBalancerSlowBrokerRemovalScore).
        max_ratio: maximum fraction of the judged brokers that may be demoted at the same time
            (loadBalancerSlowBrokerMaxPercentage).
    """

    is_enabled: bool = True
    is_removing: bool = False
    peers_times: float = 3.0
    own_times: float = 3.0
    history_samples: int = 120
    min_samples: int = 10
    min_throughput_bytes: float = 1024.0 * 1024.0
    min_usage_ratio: float = 0.2
    report_age_s: float = 30 * 60.0
    demoted_score: int = 5
    removed_score: int = 50
    max_ratio: float = 0.1


@dataclass(frozen=True, slots=True)
class BalanceRules:
    """When the planner acts, and how much it may move.

    Attributes:
        band: when a broker is too full, and how far it is relieved
            (loadBalancerPlannerHighPercentage, loadBalancerPlannerLowPercentage).
        severe_ratio: multiple of the mean usage above which a broker is relieved regardless of
            the churn budget and quiet hours.
        overloaded_ratio: current usage above which a broker outside the band is relieved
            likewise (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
        churn_ratio: maximum fraction of the cluster's load that may move within an hour by moves
            that are not urgent (loadBalancerPlannerChurnPercentagePerHour).
        smoothing: how readings become demands (loadBalancerPlannerSteadySeconds,
            loadBalancerPlannerRecentSeconds).
        bursts: when bursts that come back are planned for.
        most_moves: maximum number of moves that one cycle proposes, those of the fullest broker
            first; the plan would refuse more moves than may be in flight at once.
        rest_s: seconds after a move during which a bundle does not move again
            (loadBalancerSheddingGracePeriodMinutes).
        return_s: seconds during which a bundle does not return to its former broker
            (loadBalancerPlannerReturnMinutes).
        quiet: times of the day at which only urgent moves are made (loadBalancerQuietHours).
        slow: when a broker is slow, and receives no bundles.
        headroom_ratio: usage of the other brokers after the loss of one broker above which the
            cluster is reported as too small (loadBalancerHeadroomLimitPercentage, there in
            percent).
        weights: weights of the resources in a broker's usage
            (loadBalancerCPUResourceWeight and the settings of the other resources).
        planned_band: the band while a plan from the daily profile is in force. The plan covers
            the daily rise and fall, so only large and lasting deviations need moves. If ``band``
            is wider, ``band`` applies.
        limits: what no move brings a broker beyond (loadBalancerBrokerLimits).
        topic_cap: most partitions of a topic on a broker; 0: any number
            (loadBalancerTopicPartitionsPerBroker).
    """

    band: Band = field(default_factory=Band)
    severe_ratio: float = 1.14
    overloaded_ratio: float = 0.85
    churn_ratio: float = 0.25
    smoothing: Smoothing = field(default_factory=Smoothing)
    bursts: BurstRules = field(default_factory=BurstRules)
    most_moves: int = 64
    rest_s: float = 30 * 60.0
    return_s: float = 65 * 60.0
    quiet: QuietHours = field(default_factory=QuietHours)
    slow: SlowRules = field(default_factory=SlowRules)
    headroom_ratio: float = 0.85
    weights: UsageWeights = field(default_factory=UsageWeights)
    planned_band: Band = field(default_factory=lambda: Band(high=1.12, low=1.06))
    limits: BrokerLimits = NO_BROKER_LIMITS
    topic_cap: int = 0

    @property
    def under_plan(self) -> "BalanceRules":
        """Return the rules while a plan from the daily profile is in force."""
        band, planned = self.band, self.planned_band
        wider = replace(band, high=max(band.high, planned.high), low=max(band.low, planned.low))
        return replace(self, band=wider)

    @property
    def trouble(self) -> Band:
        """Return the band for urgent moves, which relieve only to its middle: peaks often pass."""
        return replace(self.band, high=self.band.high, low=(self.band.high + self.band.low) / 2)


# Thresholds of the shedding strategies as values, each under its `broker.conf` key.
#
# Defaults are Pulsar's (docs: pulsar-configuration). Settings of several strategies are in
# `core.rules.SheddingRules`, which holds these.


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


# Thresholds as values.
#
# Defaults are Pulsar's if Pulsar has the setting (docs: pulsar-configuration). The `broker.conf`
# key of each field is in parentheses.


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


# The rules of the Simple manager (docs: pulsar-simple-manager).


# By the name of a node below /loadbalance/settings: the key in the node's map, and its meaning.
DYNAMIC_SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "overload_threshold": ("overloadThreshold", "overload_percent"),
    "comfort_load_threshold": ("comfortLoadThreshold", "comfort_percent"),
    "underload_threshold": ("underloadThreshold", "underload_percent"),
    "auto_bundle_split_enabled": ("autoBundleSplitEnabled", "is_splitting"),
    "strategy": ("loadBalancerStrategy", "strategy"),
    "load_factor_cpu": ("loadFactorCPU", "cpu_per_msg"),
    "load_factor_mem": ("loadFactorMemory", "memory_per_group_mib"),
}


class SimpleStrategy(StrEnum):
    """How a receiver is chosen, by Pulsar's name (loadBalancerPlacementStrategy)."""

    LEAST_LOADED = "leastLoadedServer"
    LEAST_MSG_RATE = "leastMsgPerSecond"
    WEIGHTED_RANDOM = "weightedRandomSelection"


@dataclass(frozen=True, slots=True)
class SimpleRules:
    """Thresholds in percent of a resource's limit; defaults are Pulsar's.

    Attributes:
        overload_percent: usage above which a broker sheds
            (loadBalancerBrokerOverloadedThresholdPercentage).
        comfort_percent: a broker may receive shed bundles if all its resources are below this
            (loadBalancerBrokerComfortLoadLevelPercentage).
        underload_percent: usage of the chosen broker above which an idle broker is preferred
            (loadBalancerBrokerUnderloadedThresholdPercentage).
        strategy: loadBalancerPlacementStrategy.
        is_splitting: whether splits are enabled; None: operators have not set it.
        cpu_per_msg, memory_per_group_mib: factors set by operators; None: the measured ones apply.
    """

    overload_percent: float = 85.0
    comfort_percent: float = 65.0
    underload_percent: float = 50.0
    strategy: SimpleStrategy = SimpleStrategy.LEAST_LOADED
    is_splitting: bool | None = None
    cpu_per_msg: float | None = None
    memory_per_group_mib: float | None = None

    def under(self, texts: Mapping[str, str]) -> tuple["SimpleRules", tuple[str, ...]]:
        """Return these rules with operators' overrides, by the keys of `DYNAMIC_SETTINGS`.

        An invalid override is ignored and reported; the others apply.
        """
        rules, complaints = self, list[str]()
        for key, name in DYNAMIC_SETTINGS.values():
            if key not in texts:
                continue
            try:
                changed: dict[str, Any] = {name: _parse(name, texts[key])}
                rules = replace(rules, **changed)
            except ValueError as error:
                complaints.append(f"{key}={texts[key][:80]!r}: {error}")
        return rules, tuple(complaints)


def _parse(name: str, text: str) -> float | bool | SimpleStrategy:
    if name == "strategy":
        if text not in list(SimpleStrategy):
            raise ValueError(f"one of {', '.join(SimpleStrategy)} is allowed")
        return SimpleStrategy(text)
    if name == "is_splitting":
        if text not in {"true", "false"}:
            raise ValueError("true or false is allowed")
        return text == "true"
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a number is allowed") from None
    highest = 100.0 if name.endswith("_percent") else float("inf")
    if not isfinite(value) or not 0 < value <= highest:
        raise ValueError(f"a number above 0 and up to {highest:g} is allowed")
    return value


# What counts as a surge of traffic.


@dataclass(frozen=True, slots=True)
class SurgeRules:
    """When a bundle or a tenant has surged.

    Attributes:
        times: growth within ``window_s`` that is a surge (loadBalancerSurgeMultiple); 0: no growth
            is one.
        window_s: seconds within which it must grow, and for which the surge is followed.
        least_ratio: least share of a mean broker's bytes or messages that the subject must have.
        new_times: what was seen before does not surge: the traffic must be this multiple of its
            peak of earlier windows, which a move, a restart or a pause of clients does not change.
        recall_s: half-life of that peak.
    """

    times: float = 10.0
    window_s: float = 60.0
    least_ratio: float = 0.05
    new_times: float = 2.0
    recall_s: float = 600.0

    @property
    def is_enabled(self) -> bool:
        """Return whether surges are looked for."""
        return self.times > 0


NO_SURGES: Final = SurgeRules(times=0.0)
