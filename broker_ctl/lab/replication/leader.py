"""State of a partition's leader: followers' progress, the high watermark, callers that wait."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.dataplane.webhook.replica_wire import IsrProposal
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.lab.replication.log import LogRecord, ReplicaLog

# Callers that wait for records to be committed.


_ENDED: Final = "the leadership ended before the records were committed: their fate is unknown"


class Commits:
    """Futures that end when the high watermark of a partition reaches an offset."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[tuple[int, asyncio.Future[None]]]] = {}

    def wait(self, partition: TopicPartition, end_offset: int) -> asyncio.Future[None]:
        """Return once all below ``end_offset`` is committed; `DataPlaneUnreachable`: unknown."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(partition, []).append((end_offset, waiter))
        return waiter

    def advanced(self, partition: TopicPartition, high_watermark: int) -> None:
        """Complete the waits for records below the high watermark."""
        waiting = self._waiting.pop(partition, None)
        if waiting is None:
            return
        rest = []
        for end_offset, waiter in waiting:
            if waiter.done():
                continue  # the waiting caller was cancelled
            if end_offset <= high_watermark:
                waiter.set_result(None)
            else:
                rest.append((end_offset, waiter))
        if rest:
            self._waiting[partition] = rest

    def ended(self, partition: TopicPartition) -> None:
        """Fail all waits of a partition: its leadership is over."""
        for _, waiter in self._waiting.pop(partition, ()):
            if not waiter.done():
                waiter.set_exception(DataPlaneUnreachable(f"{partition}: {_ENDED}"))


# State of a partition's leader: followers' progress, the high watermark and the ISR.
#
# The ISR in the store may be the one before our last proposal, or the proposal itself. Until that
# is known, the members of both count, so that committed records are in the log of every possible
# next leader (KIP-497): the larger ISR counts while an expansion is in flight, the old one during
# a shrink. Pure.


# Log end of a follower that has not fetched from this leader yet.
_UNKNOWN: Final = -1


@dataclass(slots=True)
class FollowerProgress:
    """Progress of one follower.

    Attributes:
        end_offset: end of its log, which is a prefix of ours.
        caught_up_s: when it last had all records of our log.
        fetched_s: time of its last fetch.
        fetched_end: end of our log at that time.
    """

    end_offset: int
    caught_up_s: float
    fetched_s: float
    fetched_end: int


class LeaderState:
    """The leadership of one partition under one leader epoch.

    Args:
        broker_id: of the leader.
        instruction: of the controller.
        log: the leader's.
        now_s: start of the leadership, from which the lag time of every follower counts.

    Attributes:
        start_offset: end of the log at the start: a follower with less may lack committed records.
        isr: the stored ISR, as far as this leader knows.
        version: of the store's node, with that ISR.
        replicas: those that may join the ISR.
        adding: those that a reassignment adds; until they are in sync they are throttled.
        is_superseded: whether the store has a newer leader epoch; if so, no record is accepted or
            committed any more.
    """

    __slots__ = (
        "_broker_id",
        "_counted",
        "_followers",
        "_log",
        "_partition",
        "_proposal",
        "adding",
        "is_superseded",
        "isr",
        "leader_epoch",
        "min_isr",
        "replicas",
        "start_offset",
        "version",
    )

    def __init__(
        self, broker_id: int, instruction: ReplicaState, log: ReplicaLog, now_s: float
    ) -> None:
        state = instruction.state
        self._broker_id = broker_id
        self._partition = instruction.partition
        self._log = log
        self.replicas, self.adding = instruction.replicas, instruction.adding
        self._proposal: IsrProposal | None = None
        self.leader_epoch = state.leader_epoch
        self.start_offset = end = log.end_offset
        self.version = state.version
        self.isr = state.isr
        self.min_isr = instruction.min_isr
        self.is_superseded = False
        self._followers = {
            replica: FollowerProgress(_UNKNOWN, now_s, now_s, end)
            for replica in instruction.replicas
            if replica != broker_id
        }
        self._counted: Sequence[int] = ()
        self._count()

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the ISR is large enough to commit records."""
        return len(self.isr) >= self.min_isr

    @property
    def proposal(self) -> IsrProposal | None:
        """The proposal that is not answered yet."""
        return self._proposal

    def is_throttled(self, follower: int) -> bool:
        """Whether a reassignment adds that follower, and it is not in sync yet."""
        return follower in self.adding and follower not in self.isr

    def append(self, records: Iterable[LogRecord], now_s: float) -> bool:
        """Append records of this leader epoch; returns whether the high watermark moved."""
        end = self._log.end_offset
        for progress in self._followers.values():
            # Idle followers send nothing: up to now they were caught up.
            if progress.end_offset >= end:
                progress.caught_up_s = now_s
        self._log.append(records)
        return self.advance()

    def fetched(self, follower: int, end_offset: int, now_s: float) -> bool:
        """Record how far a follower's log agrees with ours.

        Returns whether the high watermark moved.
        """
        progress = self._followers.get(follower)
        if progress is None:
            return False
        end = self._log.end_offset
        if end_offset >= end:
            progress.caught_up_s = now_s
        elif end_offset >= progress.fetched_end:
            # Under steady writes a follower that keeps up is always one fetch behind.
            progress.caught_up_s = max(progress.caught_up_s, progress.fetched_s)
        progress.end_offset, progress.fetched_s, progress.fetched_end = end_offset, now_s, end
        return self.advance()

    def advance(self) -> bool:
        """Commit the records that all counted replicas have.

        Returns whether the high watermark moved.
        """
        if self.is_superseded or not self.has_enough_in_sync:
            return False
        end = self._log.end_offset
        for follower in self._counted:
            end = min(end, self._followers[follower].end_offset)
        if end <= self._log.high_watermark:
            return False
        self._log.high_watermark = end
        return True

    def update_proposal(
        self, now_s: float, lag_time_s: float, is_in_contact: Callable[[int], bool]
    ) -> IsrProposal | None:
        """The ISR that this leader proposes; the same until it is answered.

        A proposal without a certain answer may be in the store already, or may still be written:
        another proposal meanwhile would leave the members of the first one uncounted.
        ``is_in_contact`` says whether a follower was in contact lately: one that was not is not
        added to the ISR.
        """
        if self._proposal is None and not self.is_superseded:
            slow_s = now_s - lag_time_s
            wanted = {
                member
                for member in self.isr
                if member == self._broker_id or self._keeps_up(member, slow_s)
            } | {one for one in self._followers if self._may_join(one) and is_in_contact(one)}
            if wanted != set(self.isr):
                isr = tuple(sorted(wanted))
                self._proposal = IsrProposal(self._partition, self.leader_epoch, self.version, isr)
                self._count()
        return self._proposal

    def is_settled(self) -> bool:
        """Whether `update_proposal` has no change to propose until the next append or fetch."""
        end = self._log.end_offset
        return self.is_superseded or (
            self._proposal is None
            and all(
                progress.end_offset >= end if one in self.isr else not self._may_join(one)
                for one, progress in self._followers.items()
            )
        )

    def answered(self, state: LeaderAndIsr) -> bool:
        """Adopt the stored state after an ISR request; returns whether the high watermark moved."""
        if state.leader_epoch > self.leader_epoch:
            # The counted replicas stay: the request may have been granted before that epoch.
            self.is_superseded = True
            return False
        if state.leader_epoch < self.leader_epoch:
            return False
        return self._adopt(state)

    def on_repeated_instruction(self, instruction: ReplicaState, now_s: float) -> bool:
        """Adopt a repeated instruction under the same leader epoch; as `answered`."""
        self.min_isr, self.replicas = instruction.min_isr, instruction.replicas
        self.adding = instruction.adding
        end = self._log.end_offset
        for replica in instruction.replicas:
            if replica != self._broker_id:
                self._followers.setdefault(replica, FollowerProgress(_UNKNOWN, now_s, now_s, end))
        return self._adopt(instruction.state)

    def _adopt(self, state: LeaderAndIsr) -> bool:
        # At the version that we know the proposal is not written yet; it still may be.
        if state.version <= self.version:
            return self.advance()
        self.version, self.isr, self._proposal = state.version, state.isr, None
        self._count()
        return self.advance()

    def _count(self) -> None:
        proposed = () if self._proposal is None else self._proposal.isr
        self._counted = [one for one in {*self.isr, *proposed} if one != self._broker_id]
        for one in self._counted:
            # A member of the stored ISR that is not among the instructed replicas counts, but gets
            # no lag time: unless it has caught up, the next proposal removes it.
            self._followers.setdefault(
                one, FollowerProgress(_UNKNOWN, 0.0, 0.0, self._log.end_offset)
            )

    def _keeps_up(self, member: int, slow_s: float) -> bool:
        progress = self._followers.get(member)
        return progress is not None and (
            progress.end_offset >= self._log.end_offset or progress.caught_up_s >= slow_s
        )

    def _may_join(self, follower: int) -> bool:
        least = max(self._log.high_watermark, self.start_offset)
        return (
            follower not in self.isr
            and follower in self.replicas
            and self._followers[follower].end_offset >= least
        )
