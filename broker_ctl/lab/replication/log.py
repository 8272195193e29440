"""One replica's log, and how a follower applies data of its leader (KIP-101)."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

# One replica's log: records by offset, and where each leader epoch begins (KIP-101, KIP-320).
#
# Two logs with the same epoch at an offset agree on everything up to it: an epoch has one leader,
# which only appends. So the end offset of a follower's last epoch in the leader's log shows which
# records of the follower the leader never had. Pure.


# Leader epoch of the last record of an empty log.
NO_EPOCH: Final = -1


class LogRecord(NamedTuple):
    """A value, and the leader epoch under which it was appended first."""

    leader_epoch: int
    value: bytes


def size_of(records: Iterable[LogRecord]) -> int:
    """Bytes of values."""
    return sum(len(record.value) for record in records)


class EpochEnd(NamedTuple):
    """The largest epoch up to the one asked for, and the offset after its last record."""

    leader_epoch: int
    end_offset: int


class ReplicaLog:
    """Records from offset 0 on, their epochs never descending.

    Attributes:
        high_watermark: records below it are committed. It is kept in memory only: a process that
            starts again begins at 0, and learns it from the leader or the ISR.
    """

    __slots__ = ("_epochs", "_records", "_starts", "high_watermark")

    def __init__(self, records: Iterable[LogRecord] = ()) -> None:
        self.high_watermark = 0
        self._records: list[LogRecord] = []
        # Epochs and the offsets of their first records, both ascending.
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.append(records)

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return len(self._records)

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record, or `NO_EPOCH`."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def epoch_starts(self) -> list[tuple[int, int]]:
        """Each epoch that has records, and the offset of its first one."""
        return list(zip(self._epochs, self._starts, strict=True))

    def append(self, records: Iterable[LogRecord]) -> None:
        """Add records at the end.

        Raises:
            ValueError: an epoch smaller than the one before it; the records before it are added.
        """
        for record in records:
            if record.leader_epoch < self.last_epoch:
                raise ValueError(
                    f"epoch {record.leader_epoch} after {self.last_epoch} at {self.end_offset}"
                )
            if record.leader_epoch > self.last_epoch:
                self._epochs.append(record.leader_epoch)
                self._starts.append(len(self._records))
            self._records.append(record)

    def read(self, start: int, end: int) -> Sequence[LogRecord]:
        """Records of offsets from ``start`` to before ``end``."""
        return self._records[start:end]

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """End offset of the epoch, or of the largest one below it; `NO_EPOCH` and 0 if none."""
        index = bisect_right(self._epochs, leader_epoch)
        if index == 0:
            return EpochEnd(NO_EPOCH, 0)
        is_last = index == len(self._epochs)
        return EpochEnd(
            self._epochs[index - 1], len(self._records) if is_last else self._starts[index]
        )

    def agrees(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a log that ends there, with that last epoch, is a prefix of this one."""
        if end_offset == 0:
            return True
        return (
            end_offset <= len(self._records)
            and self._records[end_offset - 1].leader_epoch == last_epoch
        )

    def cut_for(self, theirs: EpochEnd) -> int:
        """Offset at which to truncate, given the leader's answer ``theirs`` to our last epoch.

        If this log does not have the leader's epoch, we may have to ask again after truncating.
        """
        return min(theirs.end_offset, self.epoch_end(theirs.leader_epoch).end_offset)

    def truncate(self, end_offset: int) -> None:
        """Cut off the records from ``end_offset`` on."""
        del self._records[end_offset:]
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        del self._epochs[keep:], self._starts[keep:]
        self.high_watermark = min(self.high_watermark, len(self._records))


# How a follower applies data of its leader: truncate, append or ignore. Pure.
#
# A follower sends the end of its log and its last leader epoch. If the logs diverge, the leader
# answers with the end offset of that epoch in its own log; the follower truncates the records that
# the leader never had, and sends its new log end (KIP-320; as in Kafka since 2.7, the answer comes
# with the fetch and no second request is needed).


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
        self, log: ReplicaLog, leader_epoch: int, start_offset: int, records: Sequence[LogRecord]
    ) -> Sequence[LogRecord]:
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
