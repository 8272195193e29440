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
            f"{_MANAGER}offlinereplicacount", "Replicas that this broker cannot serve."
        )
        self.isr_expands = Total(
            f"{_MANAGER}isrexpands_total", "Replicas in sync again, by the leaders here."
        )
        self.isr_shrinks = Total(
            f"{_MANAGER}isrshrinks_total", "Replicas that fell behind, by the leaders here."
        )
        self.isr_refused = Total(
            f"{_MANAGER}failedisrupdates_total",
            "Changes of an ISR that were overtaken, or could not be written.",
        )
        self.instructions = Counter(
            "broker_ctl_replica_instructions_total",
            "Instructions that came by HTTP, by result: done, or an error's name.",
            ("result",),
        )
        self.queued = Total(
            "broker_ctl_replica_instructions_queued_total",
            "Instructions that were taken from the queue in ZooKeeper and carried out.",
        )
        self.corrupt = Total(
            "broker_ctl_replica_instructions_corrupt_total",
            "Nodes of the queue in ZooKeeper that were no instructions, and were taken away.",
        )
        self.fenced = Total(
            "broker_ctl_replica_instructions_fenced_total",
            "Instructions that came too late: of a controller, or for a life of this broker, "
            "that has ended.",
        )
        self.epoch = Gauge(
            "broker_ctl_broker_epoch", "Of the registration under brokerId; 0 without one."
        )
