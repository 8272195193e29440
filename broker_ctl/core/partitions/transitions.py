"""Transitions of partitions, as rows of history (docs: kafka-state-machines)."""

from typing import NamedTuple

from broker_ctl.core.partitions.machines import PartitionStage
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import NO_LEADER


class Transition(NamedTuple):
    """A state change by the controller.

    Attributes:
        leader, former: broker id, or `NO_LEADER`; the leader after and before.
        reason: name of the event that caused it.
    """

    partition: TopicPartition
    before: PartitionStage
    after: PartitionStage
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    reason: str
    former: int = NO_LEADER
