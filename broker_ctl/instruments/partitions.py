"""Metrics of the partition controller, and of replicas under Kafka's names."""

from typing import Final

from broker_ctl.instruments.kinds import Counter, Gauge, Histogram, Total

# Metrics of the partition controller.
#
# Metrics that Kafka's controller has too are named as in its dashboards (docs:
# kafka-event-queue), in lower case as the usual exporter writes them; metrics of broker-ctl alone
# begin with ``broker_ctl_``. On a broker that is not the controller, the gauges are 0.


_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)
_SECONDS: Final = tuple(bound / 1000 for bound in _MS)


class _Known:
    """The current state of the controller."""

    def __init__(self) -> None:
        self.is_active = Gauge(
            f"{_CONTROLLER}activecontrollercount",
            "1 while this broker is the partition controller; the sum over all brokers must be 1.",
        )
        self.offline = Gauge(f"{_CONTROLLER}offlinepartitionscount", "Partitions without a leader.")
        self.imbalanced = Gauge(
            f"{_CONTROLLER}preferredreplicaimbalancecount",
            "Partitions led by a broker other than the preferred one.",
        )
        self.topics = Gauge(f"{_CONTROLLER}globaltopiccount", "Replicated topics.")
        self.partitions = Gauge(
            f"{_CONTROLLER}globalpartitioncount", "Partitions of replicated topics."
        )
        self.deletions = Gauge(f"{_CONTROLLER}topicstodeletecount", "Topics waiting for deletion.")
        self.brokers = Gauge(
            f"{_CONTROLLER}activebrokercount", "Registered brokers, as the controller sees them."
        )
        self.under_replicated = Gauge(
            "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions with fewer in-sync replicas than assigned replicas, as the controller"
            " sees them.",
        )
        self.under_min_isr = Gauge(
            "kafka_server_replicamanager_underminisrpartitioncount",
            "Partitions with fewer in-sync replicas than min ISR, which reject writes with "
            "acks=all, as the controller sees them.",
        )
        self.rack_violations = Gauge(
            "broker_ctl_controller_rack_violations",
            "Partitions whose replicas are on fewer racks than they could be; 0 while a broker has"
            " no rack.",
        )
        self.event_queue_size = Gauge(
            f"{_EVENTS}eventqueuesize", "Events in the controller's queue."
        )
        self.watches = Gauge(
            "broker_ctl_controller_watches", "ZooKeeper watches of the controller."
        )
        self.silent_brokers = Gauge(
            "broker_ctl_controller_silent_brokers",
            "Registered brokers that did not acknowledge an instruction in time.",
        )


class ControllerInstruments(_Known):
    """Metrics of the elected partition controller."""

    def __init__(self) -> None:
        super().__init__()
        self.election_ms = Histogram(
            f"{_STATS}leaderelectionrateandtimems",
            "Time that leader elections took after a change of the live brokers, ms.",
            bounds=_MS,
        )
        self.unclean_elections = Counter(
            f"{_STATS}uncleanleaderelections_total",
            "Leaders elected from outside the ISR: records may have been lost.",
        )
        self.event_queue_ms = Histogram(
            f"{_EVENTS}eventqueuetimems",
            "Time that events waited in the controller's queue, ms.",
            bounds=_MS,
        )
        self.event_s = Histogram(
            "broker_ctl_controller_event_seconds",
            "Time that the controller took to process an event.",
            ("event",),
            bounds=_SECONDS,
        )
        self.event_failures = Counter(
            "broker_ctl_controller_event_failures_total",
            "Events whose processing failed; the controller continued with the next one.",
            ("event",),
        )
        self.corrupt_nodes = Counter(
            "broker_ctl_controller_corrupt_nodes_total",
            "Nodes skipped by the controller because they cannot be read or decoded.",
            ("kind",),
        )
        self.instructions = Counter(
            "broker_ctl_controller_instructions_total",
            "Instructions to brokers, by result: acknowledged, refused, failed (and sent "
            "again), or dropped together with their broker.",
            ("transport", "result"),
        )
        self.acknowledge_s = Histogram(
            "broker_ctl_controller_acknowledge_seconds",
            "Time from the first attempt to send an instruction to its acknowledgement.",
            ("transport",),
            bounds=_SECONDS,
        )


# Metrics of the replicas of this broker, under the names of Kafka's replica manager.
#
# Docs: kafka-isr.


_MANAGER: Final = "kafka_server_replicamanager_"


class ReplicaInstruments:
    """Replicas of this broker; all 0 without a brokerId."""

    def __init__(self) -> None:
        self.held = Gauge(f"{_MANAGER}partitioncount", "Partitions with a replica on this broker.")
        self.led = Gauge(f"{_MANAGER}leadercount", "Partitions that this broker leads.")
        self.failed = Gauge(
            f"{_MANAGER}offlinereplicacount", "Replicas on this broker that cannot be served."
        )
        self.isr_expands = Total(
            f"{_MANAGER}isrexpands_total", "Replicas that leaders on this broker added to an ISR."
        )
        self.isr_shrinks = Total(
            f"{_MANAGER}isrshrinks_total",
            "Replicas that leaders on this broker removed from an ISR.",
        )
        self.isr_refused = Total(
            f"{_MANAGER}failedisrupdates_total",
            "ISR changes that failed: superseded, or not written.",
        )
        self.instructions = Counter(
            "broker_ctl_replica_instructions_total",
            "Controller instructions received over HTTP, by result: done, or the name of an error.",
            ("result",),
        )
        self.queued = Total(
            "broker_ctl_replica_instructions_queued_total",
            "Controller instructions read from the queue in ZooKeeper and applied.",
        )
        self.corrupt = Total(
            "broker_ctl_replica_instructions_corrupt_total",
            "Nodes in the instruction queue in ZooKeeper that did not decode and were deleted.",
        )
        self.fenced = Total(
            "broker_ctl_replica_instructions_fenced_total",
            "Stale instructions rejected: from a deposed controller, or for an earlier "
            "registration of this broker.",
        )
        self.throttle = Gauge(
            "broker_ctl_replica_throttle_bytes_per_second",
            "Throttle that this broker applies to replicas that reassignments add; 0 without one.",
        )
        self.epoch = Gauge(
            "broker_ctl_broker_epoch",
            "Epoch of this broker's registration under brokerId; 0 without one.",
        )
