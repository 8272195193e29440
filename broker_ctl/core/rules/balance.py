"""Thresholds of the planner as values, each under its `broker.conf` key."""

from dataclasses import dataclass, field, replace

from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.rules.limits import NO_BROKER_LIMITS, BrokerLimits
from broker_ctl.core.rules.quiet_hours import QuietHours


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
