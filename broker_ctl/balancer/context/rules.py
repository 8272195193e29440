"""The rules of the leader, as one value."""

from dataclasses import dataclass, field

from broker_ctl.core.cluster.mass_loss import MassLossRules
from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.planning.cycle import CycleRules
from broker_ctl.core.rules.surges import NO_SURGES, SurgeRules


@dataclass(frozen=True, slots=True)
class LeaderRules(CycleRules):
    """Policies with their rules, and the intervals and limits of the leader.

    Attributes:
        shedding_interval_s: from the end of one cycle to the start of the next
            (loadBalancerSheddingIntervalMinutes).
        splitting_interval_s: interval of splits and merges (loadBalancerSplitIntervalMinutes).
        quota_interval_s: interval at which averages are written
            (loadBalancerResourceQuotaUpdateIntervalMinutes).
        is_dry_run: decide and record, but move and split nothing (dryRun).
        weights: weights of the resources in a broker's usage.
        average_sample_s: time that counts as one sample of the averages; 0: each report is one
            (loadBalancerAverageSampleSeconds).
        settle_s: seconds from the start of a term to the first cycle, for reports to arrive.
        reclaim_grace_s: seconds for which only its former owner may acquire a bundle after a
            session expiry (brokerReclaimGraceMillis).
        reservation_s: maximum age of a placement whose broker does not report the bundle.
        order_s: timeout of a command that only changes metadata.
        unload_s: timeout for a data plane to close a bundle (namespaceBundleUnloadingTimeoutMs).
        load_s: timeout for a data plane to load a bundle.
        forget_s: seconds to keep averages of a bundle that is neither owned nor reported.
        mass_loss: when balancing is paused because many brokers are gone.
        surges: growth of traffic that is answered at once.
    """

    surges: SurgeRules = NO_SURGES
    mass_loss: MassLossRules = field(default_factory=MassLossRules)
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
