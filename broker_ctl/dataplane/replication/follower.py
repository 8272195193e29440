"""How a follower applies data of its leader: truncate, append or ignore. Pure.

A follower sends the end of its log and its last leader epoch. If the logs diverge, the leader
answers with the end offset of that epoch in its own log; the follower truncates the records that
the leader never had, and sends its new log end (KIP-320; as in Kafka since 2.7, the answer comes
with the fetch and no second request is needed).
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker_ctl.dataplane.replication.log import EpochEnd, Record, ReplicaLog


class FollowerState(NamedTuple):
    """The state of following one leader in one partition.

    Attributes:
        leader: broker id, or `NO_LEADER`.
        adding: replicas that a reassignment adds.
    """

    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()

    def news_in(
        self, log: ReplicaLog, leader_epoch: int, start_offset: int, records: Sequence[Record]
    ) -> Sequence[Record]:
        """The records that continue our log: all of them, or none if the log has changed since.

        The answer may have been on its way while the log was truncated or the leader changed.

        Raises:
            ValueError: no leader has such records: their epochs descend.
        """
        if leader_epoch != self.leader_epoch or start_offset != log.end_offset:
            return ()
        epochs = [log.last_epoch, *(record.leader_epoch for record in records)]
        if epochs != sorted(epochs):
            raise ValueError(f"leader epochs descend at offset {start_offset}")
        return records

    def cut_in(self, log: ReplicaLog, leader_epoch: int, at_offset: int, theirs: EpochEnd) -> int:
        """The new end of our log; the current one if the answer was for another state of it."""
        if leader_epoch != self.leader_epoch or at_offset != log.end_offset:
            return log.end_offset
        return log.cut_for(theirs)
