"""What a follower does with what its leader sends: cut off, append, or leave it. Pure.

A follower sends the end of its log and its last leader epoch. Where the leader's log is
another one, it answers up to where it has that epoch, and the follower cuts off what the leader
never had, and says again where its log ends (KIP-320; as Kafka does since 2.7, the answer comes
with the fetch and no second request is needed).
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker_ctl.dataplane.replication.log import EpochEnd, Record, ReplicaLog


class FollowerState(NamedTuple):
    """One followership of one partition.

    Attributes:
        leader: broker id, or `NO_LEADER`.
    """

    leader: int
    leader_epoch: int

    def news_in(
        self, log: ReplicaLog, leader_epoch: int, start_offset: int, records: Sequence[Record]
    ) -> Sequence[Record]:
        """The records that continue our log: all, or none where they were meant for another one.

        An answer may have been on its way while the log was cut off, or the leader changed.

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
        """Where our log is to end; where it ends now if the answer was meant for another one."""
        if leader_epoch != self.leader_epoch or at_offset != log.end_offset:
            return log.end_offset
        return log.cut_for(theirs)
