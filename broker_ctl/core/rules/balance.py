"""Thresholds of the planner as values, each under its `broker.conf` key."""

from dataclasses import dataclass, field, replace

from broker_ctl.core.model.load import UsageWeights
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
    """

    recent_s: float = 60.0
    steady_s: float = 1200.0
    change_ratio: float = 0.5


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
        history_samples: rounds that are remembered.
        min_samples: fewer do not count as history.
        min_throughput_bytes: bytes/s below which a broker is not judged
            (loadBalancerSlowBrokerMinThroughputKbytes, there in KiB).
        min_usage_ratio: usage below which it is not (loadBalancerSlowBrokerMinUsagePercentage).
        report_age_s: a broker whose report is older is slow
            (loadBalancerBrokerLoadDataTTLInSeconds).
        demoted_score: loadBalancerSlowBrokerDemotionScore.
        removed_score: loadBalancerSlowBrokerRemovalScore; no score is higher, so that a broker
            that recovers is trusted again after this number of rounds at most.
        max_ratio: part of the judged brokers that may be acted on at once
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
        severe_ratio: above this multiple of the mean usage a broker is relieved whatever the
            churn budget and quiet hours say, as is one above ``overloaded_ratio``.
        overloaded_ratio: usage at the moment above which a broker that is too full for the band is
            relieved likewise (loadBalancerBrokerOverloadedThresholdPercentage, there in percent).
        churn_ratio: part of the cluster's load that may move within an hour where nothing is
            urgent (loadBalancerPlannerChurnPercentagePerHour).
        smoothing: how readings become demands (loadBalancerPlannerSteadySeconds,
            loadBalancerPlannerRecentSeconds).
        most_moves: most moves that one cycle proposes, the fullest broker's first; more than may
            ever be in flight at once would only be refused one by one.
        rest_s: quiet time of a bundle after a move (loadBalancerSheddingGracePeriodMinutes).
        return_s: how long a bundle does not come back to a broker that it left
            (loadBalancerPlannerReturnMinutes).
        quiet: when only what is severe is relieved (loadBalancerQuietHours).
        slow: when a broker is held to be slow, and gets nothing.
        headroom_ratio: usage of the others after the loss of one broker, above which the cluster
            is reported as too small (loadBalancerHeadroomLimitPercentage, there in percent).
        weights: of the resources in a broker's usage
            (loadBalancerCPUResourceWeight and its like).
        planned_band: likewise while a plan from the daily profile is in force: the day's rise and
            fall is taken care of, and what is left is answered only where it lasts and is large.
            Where ``band`` is the wider one, it stays.
    """

    band: Band = field(default_factory=Band)
    severe_ratio: float = 1.14
    overloaded_ratio: float = 0.85
    churn_ratio: float = 0.25
    smoothing: Smoothing = field(default_factory=Smoothing)
    most_moves: int = 64
    rest_s: float = 30 * 60.0
    return_s: float = 65 * 60.0
    quiet: QuietHours = field(default_factory=QuietHours)
    slow: SlowRules = field(default_factory=SlowRules)
    headroom_ratio: float = 0.85
    weights: UsageWeights = field(default_factory=UsageWeights)
    planned_band: Band = field(default_factory=lambda: Band(high=1.12, low=1.06))

    @property
    def under_plan(self) -> "BalanceRules":
        """While a plan from the daily profile is in force."""
        band, planned = self.band, self.planned_band
        wider = replace(band, high=max(band.high, planned.high), low=max(band.low, planned.low))
        return replace(self, band=wider)

    @property
    def trouble(self) -> Band:
        """For a broker in trouble: what swings back by itself is left to do so."""
        return replace(self.band, high=self.band.high, low=(self.band.high + self.band.low) / 2)
