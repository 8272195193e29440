"""Metrics of load and of the leader.

Names, types and labels are Pulsar's if it has the same metric (docs: pulsar-metrics; one misspelt
name included); metrics of broker-ctl alone begin with ``broker_ctl_``.
"""

from typing import Final

from broker_ctl.instruments.kinds import Counter, Gauge, Histogram, Summary, Total

_LOAD: Final = {"metric": "loadBalancing"}
_UNLOADING: Final = {"metric": "bundleUnloading"}
_SPLITTING: Final = {"metric": "bundlesSplit"}
_ASSIGNING: Final = {"metric": "assign"}
_OF_BUNDLE: Final = {"metric": "bundle"}
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class BundleInstruments:
    """Bundles and load of this broker."""

    def __init__(self) -> None:
        self.owned = Gauge(
            "broker_ctl_owned_bundles", "Bundles owned by this broker, by state.", ("state",)
        )
        self.loads_pending = Gauge(
            "pulsar_broker_topic_load_pending_requests",
            "Bundles being acquired and loaded, each with all of its topics.",
        )
        self.unlisted = Gauge(
            "broker_ctl_load_report_truncated_bundles",
            "Bundles omitted from this broker's load report for its size: the lightest ones.",
        )
        self.is_draining = Gauge(
            "broker_ctl_draining", "1 while this broker hands all of its bundles over."
        )
        self.cpu_usage = self._usage("cpu", "Processor time")
        self.memory_usage = self._usage("memory", "Memory")
        self.direct_memory_usage = self._usage("directMemory", "Direct memory")
        self.bandwidth_in_usage = self._usage("bandwidth_in", "Incoming bandwidth")
        self.bandwidth_out_usage = self._usage("bandwidth_out", "Outgoing bandwidth")
        self.resource_usage = Gauge(
            "pulsar_lb_resource_usage",
            "Usage that is balanced; 1 is full. max: the largest weighted resource of this "
            "broker; max_ema: the leader's moving average of max, for each broker.",
            ("broker", "feature"),
            _LOAD,
        )

    @staticmethod
    def _usage(resource: str, words: str) -> Gauge:
        says = f"{words} of this broker, percent of its limit."
        return Gauge(f"pulsar_lb_{resource}_usage", says, ("broker",), _LOAD)


class OwnershipInstruments:
    """Ownership of bundles: losses, re-acquisitions and their durations."""

    def __init__(self) -> None:
        self.lost = Counter(
            "broker_ctl_ownership_lost_total",
            "Bundles that this broker lost without releasing them. taken_away: the owner node"
            " was deleted while the session lived; not_reclaimed: not re-acquired after a "
            "session expiry or a restart, because another broker owns the bundle, it no "
            "longer exists, or it did not load.",
            ("cause",),
        )
        for cause in ("taken_away", "not_reclaimed"):
            self.lost.add(cause, amount=0)
        self.fenced = Total(
            "broker_ctl_dataplane_fenced_total",
            "Bundles fenced because the broker process had loaded them under a token that "
            "this broker did not own in two consecutive checks.",
        )
        self.dataplane_restarts = Total(
            "broker_ctl_dataplane_restarts_total",
            "Restarts of the broker process that the daemon detected.",
        )
        self.reclaimed = Counter(
            "broker_ctl_bundles_reclaimed_total",
            "Bundles re-acquired after a session expiry or a restart. kept: with their topics"
            " open; late: closed first, and re-acquired after an earlier session of this "
            "broker ended.",
            ("outcome",),
        )
        for outcome in ("kept", "late"):
            self.reclaimed.add(outcome, amount=0)
        self.reclaim_s = Histogram(
            "broker_ctl_reclaim_seconds",
            "Time from the start of a session until each previously owned bundle is served "
            "again or given up, seconds.",
            bounds=_SECONDS,
        )
        self.unload_s = Histogram(
            "broker_ctl_unload_seconds",
            "Time from the command to release a bundle until its topics are closed and its "
            "owner node is deleted, seconds.",
            bounds=_SECONDS,
        )


class TrafficInstruments:
    """Traffic of each bundle; absent unless exposeBundlesMetricsInPrometheus is set."""

    def __init__(self) -> None:
        self.msg_rate_in = self._of("msg_rate_in", "Incoming messages per second.")
        self.msg_rate_out = self._of("msg_rate_out", "Outgoing messages per second.")
        self.topics = self._of("topics_count", "Topics.")
        self.consumers = self._of("consumer_count", "Consumers.")
        self.producers = self._of("producer_count", "Producers.")
        self.msg_throughput_in = self._of("msg_throughput_in", "Incoming bytes per second.")
        self.msg_throughput_out = self._of("msg_throughput_out", "Outgoing bytes per second.")

    @staticmethod
    def _of(measured: str, says: str) -> Gauge:
        return Gauge(f"pulsar_bundle_{measured}", says, ("broker", "bundle"), _OF_BUNDLE)


class LossInstruments:
    """Brokers that are gone, and their bundles, as the leader sees them."""

    def __init__(self) -> None:
        self.lost_brokers = Gauge(
            "broker_ctl_lost_brokers",
            "Brokers that were lost within loadBalancerLostBrokersWindowSeconds without being "
            "stopped or drained, or for which the leader has paused the balancing.",
        )
        self.offline_bundles_eta_s = Gauge(
            "broker_ctl_offline_bundles_eta_seconds",
            "Time until the leader has placed all offline bundles, at the rate so far; -1: it has "
            "not placed any yet.",
        )
        self.offline_bundles = Gauge(
            "broker_ctl_offline_bundles",
            "Bundles with traffic but without an owner, because their broker is gone, in the "
            "leader's newest snapshot. The leader places them automatically.",
        )


class AttachedInstruments:
    """The cluster of Pulsar brokers that is balanced from outside."""

    def __init__(self) -> None:
        self.destinations_ignored = Total(
            "broker_ctl_unload_destination_mismatch_total",
            "Moves in which a Pulsar cluster chose another destination than the requested one.",
        )
        self.metadata_outdated = Gauge(
            "broker_ctl_cluster_metadata_outdated",
            "1 while the brokers of a Pulsar cluster do not use the metadata store that plans are "
            "made of, so that nothing is moved, by what shows it.",
            ("cause",),
        )


class AdviceInstruments:
    """What an operator should look at, by the leader's newest snapshot."""

    def __init__(self) -> None:
        self.misplaced_bundles = Gauge(
            "broker_ctl_misplaced_bundles",
            "Bundles in the leader's newest snapshot on brokers that an isolation policy does not "
            "allow.",
        )
        self.brokers_over_limits = Gauge(
            "broker_ctl_brokers_over_limits",
            "Brokers that exceed a limit of loadBalancerBrokerLimits, in the leader's newest "
            "snapshot.",
        )
        self.hot_topic_bundles = Gauge(
            "broker_ctl_hot_topic_bundles",
            "Bundles above loadBalancerNamespaceBundleMaxBrokerPercentage whose traffic is that of "
            "one topic, in the leader's newest snapshot: splits and moves do not help.",
        )
        self.is_full = Gauge(
            "broker_ctl_cluster_full",
            "1 while every broker that could receive bundles exceeds a limit of "
            "loadBalancerBrokerLimits, so that no load moves.",
        )
        self.topic_spread_violations = Gauge(
            "broker_ctl_topic_spread_violations",
            "Pairs of topic and broker with more partitions than "
            "loadBalancerTopicPartitionsPerBroker, in the leader's newest snapshot.",
        )
        self.recommended_brokers = Gauge(
            "broker_ctl_recommended_brokers",
            "Brokers that the load of the leader's newest snapshot needs so that one of them, or a "
            "whole failure domain, may be lost; 0: unknown.",
        )
        self.usage_after_loss = Gauge(
            "broker_ctl_usage_after_loss_ratio",
            "Usage of the fullest resource at best after the worst loss of a broker or of a whole "
            "failure domain, in the leader's newest snapshot.",
            ("lost",),
        )


class LeaderInstruments:
    """The leader's view, decisions and outcomes."""

    def __init__(self) -> None:
        self.decisions = Total(
            "broker_ctl_decisions_total",
            "Decisions of the leader, by kind, reason and result.",
            ("kind", "reason", "result"),
        )
        self.moves_in_flight = Gauge("broker_ctl_moves_in_flight", "Bundle moves in progress.")
        self.imbalance = Gauge(
            "broker_ctl_imbalance_ratio",
            "Maximum over mean of the brokers in the leader's newest snapshot; 1: perfectly "
            "balanced.",
            ("of",),
        )
        self.is_paused = Gauge(
            "broker_ctl_paused", "1 while balancing is paused, by an operator or after a mass loss."
        )
        self.drained_brokers = Gauge(
            "broker_ctl_drained_brokers",
            "Brokers under drain, including those that are already empty.",
        )
        self.usage_stats = Gauge(
            "pulsar_lb_resource_usage_stats",
            "Mean and standard deviation of the brokers' usage, from the leader's moving averages.",
            ("feature", "stat"),
            _LOAD,
        )
        self.report_age_s = Gauge(
            "broker_ctl_load_report_age_seconds",
            "Age of the newest load report of each live broker at the leader, seconds.",
            ("broker",),
        )
        self.assignment_ms = Summary(
            "pulsar_broker_load_manager_bundle_assigment",
            "Time that the leader takes to place a bundle, ms.",
            quantiles=(0.5, 0.99, 0.999, 1.0),
        )


class LeaderTotals:
    """Totals of Pulsar's leader; the breakdowns use its words for results and reasons."""

    def __init__(self) -> None:
        self.unload_brokers = Total(
            "pulsar_lb_unload_broker_total",
            "Brokers from which the leader moved bundles, each once per cycle.",
            constants=_UNLOADING,
        )
        self.unload_bundles = Total(
            "pulsar_lb_unload_bundle_total",
            "Bundles moved by the leader from one broker to another.",
            constants=_UNLOADING,
        )
        self.unloads = Total(
            "pulsar_lb_unload_broker_breakdown_total",
            "Moves by result (done, failed or skipped) and reason.",
            ("result", "reason"),
            _UNLOADING,
        )
        self.bundle_splits = Total(
            "pulsar_lb_bundles_split_total", "Bundles split.", constants=_SPLITTING
        )
        self.splits = Total(
            "pulsar_lb_bundles_split_breakdown_total",
            "Splits by result (done or failed) and reason.",
            ("result", "reason"),
            _SPLITTING,
        )
        self.assignments = Total(
            "pulsar_lb_assign_broker_breakdown_total",
            "Placements by result. Empty: no broker could receive the bundle; Skip: a broker "
            "was already assigned.",
            ("result",),
            _ASSIGNING,
        )


class SimpleInstruments:
    """Ranks of brokers under the Simple load manager; absent under any other."""

    def __init__(self) -> None:
        self.load_rank = Gauge(
            "pulsar_lb_load_rank",
            "Value that the placement strategy compares: load in percent, messages per "
            "second, or a random number.",
            ("broker",),
        )
        self.quota_cpu = self._quota("cpu", "Processor time")
        self.quota_memory = self._quota("memory", "Memory")
        self.quota_bandwidth_in = self._quota("bandwidth_in", "Incoming bandwidth")
        self.quota_bandwidth_out = self._quota("bandwidth_out", "Outgoing bandwidth")

    @staticmethod
    def _quota(resource: str, words: str) -> Gauge:
        says = f"{words} that a broker's bundles are expected to need, percent of its limit."
        return Gauge(f"pulsar_lb_quota_pct_{resource}", says, ("broker",))
