"""What became of a partition, as a row of history (docs: kafka-state-machines)."""

from typing import NamedTuple

from broker_ctl.core.partitions.machines import PartitionStage
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import NO_LEADER


class Transition(NamedTuple):
    """One change that the controller made.

    Attributes:
        leader, former: broker id, or `NO_LEADER`; who leads since, and who did before.
        reason: what it was made for: the name of the event.
    """

    partition: TopicPartition
    before: PartitionStage
    after: PartitionStage
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    reason: str
    former: int = NO_LEADER
