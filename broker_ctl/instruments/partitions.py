"""Metrics of the partition controller.

What Kafka's controller has is called as its dashboards know it (docs: kafka-event-queue), one name
in lower case as the usual exporter writes it; what only we can tell is called ``broker_ctl_``.
Where this broker does not control, its gauges are 0.
"""

from typing import Final

from broker_ctl.instruments.kinds import Counter, Gauge, Histogram

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)


class _Known:
    """What the controller knows at the moment."""

    def __init__(self) -> None:
        self.is_active = Gauge(
            f"{_CONTROLLER}activecontrollercount",
            "1 while this broker controls partitions; over all brokers it must be 1.",
        )
        self.offline = Gauge(
            f"{_CONTROLLER}offlinepartitionscount", "Partitions that nobody leads."
        )
        self.imbalanced = Gauge(
            f"{_CONTROLLER}preferredreplicaimbalancecount",
            "Partitions that another broker leads than their preferred one.",
        )
        self.topics = Gauge(f"{_CONTROLLER}globaltopiccount", "Replicated topics.")
        self.partitions = Gauge(
            f"{_CONTROLLER}globalpartitioncount", "Partitions of replicated topics."
        )
        self.deletions = Gauge(
            f"{_CONTROLLER}topicstodeletecount", "Topics whose end was asked for."
        )
        self.brokers = Gauge(
            f"{_CONTROLLER}activebrokercount", "Brokers that are registered, by the controller."
        )
        self.under_replicated = Gauge(
            "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions with fewer replicas in sync than assigned, as the controller sees them.",
        )
        self.under_min_isr = Gauge(
            "kafka_server_replicamanager_underminisrpartitioncount",
            "Partitions with fewer replicas in sync than they ask for, which take no writes that "
            "are to be committed, as the controller sees them.",
        )
        self.event_queue_size = Gauge(f"{_EVENTS}eventqueuesize", "Events that wait.")
        self.watches = Gauge(
            "broker_ctl_controller_watches", "Watches that the controller has set."
        )
        self.silent_brokers = Gauge(
            "broker_ctl_controller_silent_brokers",
            "Registered brokers that have not acknowledged an instruction in time.",
        )


class ControllerInstruments(_Known):
    """Partition controller; on the broker that is elected."""

    def __init__(self) -> None:
        super().__init__()
        self.election_ms = Histogram(
            f"{_STATS}leaderelectionrateandtimems",
            "Time that electing leaders took after a change of the brokers.",
            bounds=_MS,
        )
        self.unclean_elections = Counter(
            f"{_STATS}uncleanleaderelections_total",
            "Leaders that were elected out of the ISR: records may have been lost.",
        )
        self.event_queue_ms = Histogram(
            f"{_EVENTS}eventqueuetimems", "Time that events waited.", bounds=_MS
        )
        self.event_ms = Histogram(
            "broker_ctl_controller_event_ms",
            "Time that the controller spent on an event.",
            ("event",),
            bounds=_MS,
        )
        self.event_failures = Counter(
            "broker_ctl_controller_event_failures_total",
            "Events that ended in an error; the next one was handled all the same.",
            ("event",),
        )
        self.corrupt_nodes = Counter(
            "broker_ctl_controller_corrupt_nodes_total",
            "Nodes that the controller skipped because they do not decode or cannot be read.",
            ("kind",),
        )
        self.instructions = Counter(
            "broker_ctl_controller_instructions_total",
            "Instructions to brokers, by what became of them: acknowledged, refused, failed "
            "(it is sent again), or dropped with the broker that they were for.",
            ("transport", "result"),
        )
        self.acknowledge_ms = Histogram(
            "broker_ctl_controller_acknowledge_ms",
            "Time from the first attempt to send an instruction to its acknowledgement.",
            ("transport",),
            bounds=_MS,
        )
