"""What steers the leader, as one value."""

from dataclasses import dataclass, field

from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.planning.cycle import CycleRules


@dataclass(frozen=True, slots=True)
class LeaderRules(CycleRules):
    """Policies with their rules, and how the leader goes about its work.

    Attributes:
        shedding_interval_s: from the end of one cycle to the start of the next
            (loadBalancerSheddingIntervalMinutes).
        splitting_interval_s: of splits and of merges (loadBalancerSplitIntervalMinutes).
        quota_interval_s: how often averages are written
            (loadBalancerResourceQuotaUpdateIntervalMinutes).
        is_dry_run: decide and record, but move and split nothing (dryRun).
        weights: of the resources in a broker's usage.
        average_sample_s: for so long a report is one sample of the averages; 0: each is one
            (loadBalancerAverageSampleSeconds).
        settle_s: seconds from the start of a term to the first cycle, for reports to arrive.
        reclaim_grace_s: as long only its former owner may take a bundle again
            (brokerReclaimGraceMillis).
        reservation_s: how long a placement is kept for a broker that does not report the bundle.
        order_s: limit of an order that only changes the metadata.
        unload_s: how long a data plane may take to close a bundle
            (namespaceBundleUnloadingTimeoutMs).
        load_s: how long one may take to load a bundle.
        forget_s: seconds to keep averages of a bundle neither owned nor reported.
    """

    weights: UsageWeights = field(default_factory=UsageWeights)
    average_sample_s: float = 0.0
    shedding_interval_s: float = 60.0
    splitting_interval_s: float = 60.0
    quota_interval_s: float = 15 * 60.0
    is_dry_run: bool = False
    settle_s: float = 10.0
    reclaim_grace_s: float = 2.0
    reservation_s: float = 30.0
    order_s: float = 5.0
    unload_s: float = 60.0
    load_s: float = 30.0
    forget_s: float = 15 * 60.0
