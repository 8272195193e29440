"""One replica that the simulated broker process holds."""

from dataclasses import dataclass

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.follower import Following
from broker_ctl.dataplane.replication.leader import Leading
from broker_ctl.dataplane.replication.log import ReplicaLog


@dataclass(slots=True, eq=False)
class Replica:
    """What is held of one partition.

    Attributes:
        leader_epoch: the newest that it was told; under it, or before it, stands ``role``.
        role: None: it was stopped, or has not been told anything since the start.
        is_failed: its log cannot be read or written.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    log: ReplicaLog
    role: Leading | Following | None = None
    is_failed: bool = False

    @property
    def leading(self) -> Leading | None:
        """The leadership, where it leads and its log can be written."""
        role = self.role
        return role if isinstance(role, Leading) and not self.is_failed else None

    @property
    def following(self) -> Following | None:
        """The followership, where it follows and its log can be written."""
        role = self.role
        return role if isinstance(role, Following) and not self.is_failed else None
