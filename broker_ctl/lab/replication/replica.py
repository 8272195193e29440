"""One replica that the simulated broker process holds."""

from dataclasses import dataclass

from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.lab.replication.leader import LeaderState
from broker_ctl.lab.replication.log import FollowerState, ReplicaLog


@dataclass(slots=True, eq=False)
class Replica:
    """The replica of one partition.

    Attributes:
        leader_epoch: newest one instructed; ``role`` is of this epoch or an earlier one.
        role: None if it is stopped, or without an instruction since the start.
        is_failed: its log cannot be read or written.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    log: ReplicaLog
    role: LeaderState | FollowerState | None = None
    is_failed: bool = False

    @property
    def leader(self) -> LeaderState | None:
        """The leadership, if it leads and its log can be written."""
        role = self.role
        return role if isinstance(role, LeaderState) and not self.is_failed else None

    @property
    def follower(self) -> FollowerState | None:
        """Its state as a follower, if it follows and its log can be written."""
        role = self.role
        return role if isinstance(role, FollowerState) and not self.is_failed else None
