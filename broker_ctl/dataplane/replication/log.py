"""One replica's log: records by offset, and where each leader epoch begins (KIP-101, KIP-320).

Two logs that have the same epoch at an offset agree on everything up to it: an epoch has one
leader, which only appends. So a follower that knows up to where the leader's log has its last epoch
knows what the leader never had. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

# In place of the leader epoch of the last record, where there is no record.
NO_EPOCH: Final = -1


class Record(NamedTuple):
    """A value, and the leader epoch under which it was appended first."""

    leader_epoch: int
    value: bytes


class EpochEnd(NamedTuple):
    """The largest epoch up to the one asked for, and the offset after its last record."""

    leader_epoch: int
    end_offset: int


class ReplicaLog:
    """Records from offset 0 on, their epochs never descending.

    Attributes:
        high_watermark: records below it are known to be committed. Kept in memory only: who
            starts anew begins at 0 and learns it again.
    """

    __slots__ = ("_epochs", "_records", "_starts", "high_watermark")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.high_watermark = 0
        self._records: list[Record] = []
        # Where the records of each epoch begin, both ascending.
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.append(records)

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return len(self._records)

    @property
    def last_epoch(self) -> int:
        """Of the last record, or `NO_EPOCH`."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def epoch_starts(self) -> list[tuple[int, int]]:
        """Each epoch that has records, and the offset of its first one."""
        return list(zip(self._epochs, self._starts, strict=True))

    def append(self, records: Iterable[Record]) -> None:
        """Add records at the end.

        Raises:
            ValueError: an epoch smaller than the one before it; those before are added.
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

    def read(self, start: int, end: int) -> Sequence[Record]:
        """Records of offsets from ``start`` to before ``end``."""
        return self._records[start:end]

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """Up to where this log has the epoch, or the largest one below it; `NO_EPOCH` and 0."""
        index = bisect_right(self._epochs, leader_epoch)
        if index == 0:
            return EpochEnd(NO_EPOCH, 0)
        is_last = index == len(self._epochs)
        return EpochEnd(
            self._epochs[index - 1], len(self._records) if is_last else self._starts[index]
        )

    def agrees(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a log that ends there, with that epoch last, is a beginning of this one."""
        if end_offset == 0:
            return True
        return (
            end_offset <= len(self._records)
            and self._records[end_offset - 1].leader_epoch == last_epoch
        )

    def cut_for(self, theirs: EpochEnd) -> int:
        """Where to cut off what a leader never had that answered ``theirs`` to our last epoch.

        Where the leader's epoch is not ours, we may have to ask again with what is left.
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
