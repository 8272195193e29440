"""Metrics of the load, and of what the leader makes of it.

Names, types and labels are Pulsar's wherever it has the same thing (docs: pulsar-metrics; the
misspelt name included); what only we can tell is called ``broker_ctl_``.
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
            "broker_ctl_owned_bundles", "Bundles held by this broker, by state.", ("state",)
        )
        self.loads_pending = Gauge(
            "pulsar_broker_topic_load_pending_requests",
            "Bundles that are being taken and loaded, each with all of its topics.",
        )
        self.unlisted = Gauge(
            "broker_ctl_report_bundles_left_out",
            "Bundles of this broker that found no room in its load report: the lightest ones.",
        )
        self.is_draining = Gauge("broker_ctl_draining", "1 while this broker gives everything up.")
        self.cpu_usage = self._usage("cpu", "Processor time")
        self.memory_usage = self._usage("memory", "Memory")
        self.direct_memory_usage = self._usage("directMemory", "Direct memory")
        self.bandwidth_in_usage = self._usage("bandwidth_in", "Incoming bandwidth")
        self.bandwidth_out_usage = self._usage("bandwidth_out", "Outgoing bandwidth")
        self.resource_usage = Gauge(
            "pulsar_lb_resource_usage",
            "Usage that is balanced, 1 is full; max: the largest weighted resource of this broker, "
            "max_ema: the leader's moving average of it, of each broker.",
            ("broker", "feature"),
            _LOAD,
        )

    @staticmethod
    def _usage(resource: str, words: str) -> Gauge:
        says = f"{words} of this broker, percent of its limit."
        return Gauge(f"pulsar_lb_{resource}_usage", says, ("broker",), _LOAD)


class OwnershipInstruments:
    """Ownership of bundles; what became of it on this broker, and how long that took."""

    def __init__(self) -> None:
        self.lost = Counter(
            "broker_ctl_bundles_lost_total",
            "Bundles that this broker had, and has no more without having given them up. "
            "taken_away: somebody deleted the owner node while the session lived; "
            "not_reclaimed: not taken again after the session had ended or the daemon had been "
            "started anew, since they are another broker's, no bundles any more, or not loaded.",
            ("cause",),
        )
        for cause in ("taken_away", "not_reclaimed"):
            self.lost.add(cause, amount=0)
        self.fenced = Total(
            "broker_ctl_dataplane_fenced_total",
            "Bundles that the broker process had loaded, and this broker did not own under that "
            "token at two looks in a row: they were fenced.",
        )
        self.dataplane_restarts = Total(
            "broker_ctl_dataplane_restarts_total",
            "How often another broker process was found in the place of the one before.",
        )
        self.reclaimed = Counter(
            "broker_ctl_bundles_reclaimed_total",
            "Bundles after an expiry or a restart. kept: taken again, with their topics open; "
            "late: closed, and taken again once an earlier session of this broker has ended.",
            ("outcome",),
        )
        for outcome in ("kept", "late"):
            self.reclaimed.add(outcome, amount=0)
        self.reclaim_s = Histogram(
            "broker_ctl_reclaim_seconds",
            "From the begin of a session until every bundle of before was served again or let go.",
            bounds=_SECONDS,
        )
        self.unload_s = Histogram(
            "broker_ctl_unload_seconds",
            "From the order to release a bundle until its topics were closed and its node gone.",
            bounds=_SECONDS,
        )


class TrafficInstruments:
    """Traffic of each bundle; absent unless exposeBundlesMetricsInPrometheus asks for it."""

    def __init__(self) -> None:
        self.msg_rate_in = self._of("msg_rate_in", "Messages a second that come in.")
        self.msg_rate_out = self._of("msg_rate_out", "Messages a second that go out.")
        self.topics = self._of("topics_count", "Topics.")
        self.consumers = self._of("consumer_count", "Consumers.")
        self.producers = self._of("producer_count", "Producers.")
        self.msg_throughput_in = self._of("msg_throughput_in", "Bytes a second that come in.")
        self.msg_throughput_out = self._of("msg_throughput_out", "Bytes a second that go out.")

    @staticmethod
    def _of(measured: str, says: str) -> Gauge:
        return Gauge(f"pulsar_bundle_{measured}", says, ("broker", "bundle"), _OF_BUNDLE)


class LeaderInstruments:
    """Leader; what it sees and decides, and what comes of it."""

    def __init__(self) -> None:
        self.decisions = Total(
            "broker_ctl_decisions_total",
            "Decisions, by what, why and what came of it.",
            ("kind", "reason", "result"),
        )
        self.moves_in_flight = Gauge(
            "broker_ctl_moves_in_flight", "Moves that were begun and have not ended."
        )
        self.destinations_ignored = Total(
            "broker_ctl_destinations_ignored_total",
            "Moves that a Pulsar cluster carried out to another broker than it was asked to.",
        )
        self.offline_bundles = Gauge(
            "broker_ctl_offline_bundles",
            "Bundles that had traffic and that nobody owned at the leader's last look, since their "
            "broker is gone: those that it places by itself.",
        )
        self.imbalance = Gauge(
            "broker_ctl_imbalance_ratio",
            "Max over mean of the brokers at the leader's last look, 1 where all are equal.",
            ("of",),
        )
        self.is_paused = Gauge(
            "broker_ctl_paused", "1 while operators let the leader do nothing by itself."
        )
        self.drained_brokers = Gauge(
            "broker_ctl_drained_brokers", "Brokers that operators drain, empty already or not."
        )
        self.usage_stats = Gauge(
            "pulsar_lb_resource_usage_stats",
            "Mean and standard deviation of the leader's moving averages of the brokers' usage.",
            ("feature", "stat"),
            _LOAD,
        )
        self.report_age_s = Gauge(
            "broker_ctl_load_report_age_seconds",
            "Time since the newest load report of each live broker reached the leader.",
            ("broker",),
        )
        self.assignment_ms = Summary(
            "pulsar_broker_load_manager_bundle_assigment",
            "Time that the leader takes to say who receives a bundle, ms.",
            quantiles=(0.5, 0.99, 0.999, 1.0),
        )


class LeaderTotals:
    """Totals of Pulsar's leader; the breakdowns have result and reason in its words."""

    def __init__(self) -> None:
        self.unload_brokers = Total(
            "pulsar_lb_unload_broker_total",
            "Brokers that the leader moved bundles away from, each once a cycle.",
            constants=_UNLOADING,
        )
        self.unload_bundles = Total(
            "pulsar_lb_unload_bundle_total",
            "Bundles that the leader moved from one broker to another.",
            constants=_UNLOADING,
        )
        self.unloads = Total(
            "pulsar_lb_unload_broker_breakdown_total",
            "Moves that were made, that failed, and that were left undone on purpose.",
            ("result", "reason"),
            _UNLOADING,
        )
        self.bundle_splits = Total(
            "pulsar_lb_bundles_split_total", "Bundles that were split.", constants=_SPLITTING
        )
        self.splits = Total(
            "pulsar_lb_bundles_split_breakdown_total",
            "Splits that were made and that failed.",
            ("result", "reason"),
            _SPLITTING,
        )
        self.assignments = Total(
            "pulsar_lb_assign_broker_breakdown_total",
            "Placements; Empty: nobody could receive, Skip: it was promised to somebody already.",
            ("result",),
            _ASSIGNING,
        )


class SimpleInstruments:
    """Simple load manager; how its leader ranks each broker, absent under any other."""

    def __init__(self) -> None:
        self.load_rank = Gauge(
            "pulsar_lb_load_rank",
            "What the placement strategy compares: percent of load, messages/s, or chance.",
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
