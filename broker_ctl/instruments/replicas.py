"""Metrics of the replicas of this broker, under the names of Kafka's replica manager.

Docs: kafka-isr.
"""

from typing import Final

from broker_ctl.instruments.kinds import Counter, Gauge, Total

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
