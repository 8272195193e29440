"""The partitions that this broker process leads: accepts writes, feeds followers, keeps the ISR.

Everything here is atomic: no method awaits between a check and the action.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import IsrAnswer, IsrProposal
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused
from broker_ctl.lab.replication.fetchers import Feed, Feeds, FetchPlace, Throttle
from broker_ctl.lab.replication.leader import Commits, LeaderState
from broker_ctl.lab.replication.log import LogRecord, size_of
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.storage import ReplicaStorage
from broker_ctl.lab.replication.tcp import (
    ANY_EPOCH,
    MAX_PARTITIONS,
    MAX_RECORDS,
    MAX_VALUES_BYTES,
    record_rows,
)


@dataclass(slots=True)
class _Frame:
    """Rows of one frame, see `messages`."""

    data: list[list[Any]] = field(default_factory=list)
    cuts: list[list[Any]] = field(default_factory=list)


class Leaderships:
    """The leaderships of this broker process.

    Args:
        replicas: all that are held; the table's.
    """

    def __init__(
        self,
        broker_id: int,
        replicas: Mapping[TopicPartition, Replica],
        storage: ReplicaStorage,
        *,
        clock: Clock,
        authority: Callable[[], Authority],
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._storage = storage
        self._clock = clock
        self._authority = authority
        self.feeds = Feeds()
        self.commits = Commits()
        self.throttle = Throttle[tuple[Feed, TopicPartition]](clock)
        # Leaders whose ISR may have to change; the others are not visited.
        self._unsettled: dict[TopicPartition, None] = {}

    def begin(self, replica: Replica, instruction: ReplicaState) -> None:
        """Begin to lead. Followers may have named the partition before."""
        self.end(replica.partition)
        leader = LeaderState(self._broker_id, instruction, replica.log, self._clock.now_s())
        replica.role = leader
        self._unsettled[replica.partition] = None
        # Without other in-sync replicas the whole log is committed.
        leader.advance()
        self.feeds.mark(replica.partition)

    def on_repeated_instruction(self, replica: Replica, instruction: ReplicaState) -> None:
        """Apply the same leader epoch again.

        Version, ISR, min ISR and replicas may have changed.
        """
        leader = replica.leader
        if leader is not None:
            if leader.replicas != instruction.replicas:
                # A replica that may now join the ISR may have fetched to the end long ago, and be
                # idle.
                self.feeds.note_again(replica.partition)
            has_advanced = leader.on_repeated_instruction(instruction, self._clock.now_s())
            self._settle(replica, has_advanced=has_advanced)

    def end(self, partition: TopicPartition) -> None:
        """Lead no more."""
        self._unsettled.pop(partition, None)
        self.commits.ended(partition)

    def produce(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        values: Sequence[bytes],
        *,
        is_for_all: bool,
    ) -> tuple[int, int]:
        """Append values; returns the offset of the first one, and the leader epoch.

        Raises:
            DataPlaneFenced, DataPlaneRefused: nothing was appended.
        """
        replica, leader = self._led(partition, leader_epoch)
        if is_for_all and not leader.has_enough_in_sync:
            raise DataPlaneRefused(
                f"{partition}: {len(leader.isr)} in sync, {leader.min_isr} are wanted"
            )
        offset = replica.log.end_offset
        records = [LogRecord(leader.leader_epoch, value) for value in values]
        try:
            self._storage.append(partition, records)
        except OSError as error:
            self.fail(replica)
            raise DataPlaneRefused(f"{partition}: {error}") from error
        has_advanced = leader.append(records, self._clock.now_s())
        self.feeds.mark(partition)
        self._settle(replica, has_advanced=has_advanced)
        return offset, leader.leader_epoch

    def consume(
        self, partition: TopicPartition, leader_epoch: int, offset: int, most: int
    ) -> tuple[Sequence[LogRecord], int]:
        """Committed records from an offset on, as many as fit one frame, and the high watermark.

        Raises:
            DataPlaneFenced, DataPlaneRefused: another leader epoch, or no leader here; also without
            authority, since another leader may have committed more.
        """
        replica, _ = self._led(partition, leader_epoch)
        watermark = replica.log.high_watermark
        wanted = replica.log.read(offset, min(watermark, offset + most))
        return bounded(wanted, MAX_VALUES_BYTES), watermark

    def check_authority(self) -> None:
        """Refuse if this process may not act.

        Raises:
            DataPlaneRefused: its authority is over.
        """
        if not self._authority().is_valid(self._clock.now_s()):
            raise DataPlaneRefused("no authority: nothing is taken or acknowledged")

    def fail(self, replica: Replica) -> None:
        """Give up leading a replica whose log cannot be read or written."""
        replica.is_failed = True
        self.end(replica.partition)

    def frame(self, feed: Feed) -> Mapping[str, Any]:
        """Data for a follower, as much as fits one frame; empty if there is none."""
        self.release()
        frame = _Frame()
        room = MAX_VALUES_BYTES
        for partition in feed.take(MAX_PARTITIONS):
            if room > 0:
                room -= self._add(feed, partition, room, frame)
            else:
                feed.mark(partition)
        return {"data": frame.data, "cuts": frame.cuts} if frame.data or frame.cuts else {}

    def release(self) -> None:
        """Let the followers go on for which the throttle has bytes."""
        for (feed, partition), size in self.throttle.grants():
            feed.granted[partition] = size
            feed.mark(partition)

    def close(self, feed: Feed) -> None:
        """Close the feed of a connection that has ended."""
        for partition in feed.places:
            self.throttle.forget((feed, partition))
        self.feeds.close(feed)

    def proposals(self, lag_time_s: float) -> Sequence[IsrProposal]:
        """The ISR changes that the leaders propose, given the time that a follower may lag."""
        now_s = self._clock.now_s()
        in_contact: dict[int, bool] = {}

        def is_in_contact(follower: int) -> bool:
            if follower not in in_contact:
                in_contact[follower] = now_s - self.feeds.last_contact_s(follower) <= lag_time_s
            return in_contact[follower]

        found = []
        for partition in tuple(self._unsettled):
            leader = self._replicas[partition].leader
            if leader is None or leader.is_settled():
                del self._unsettled[partition]
            elif (proposal := leader.update_proposal(now_s, lag_time_s, is_in_contact)) is not None:
                found.append(proposal)
        return found

    def answer(self, answer: IsrAnswer) -> None:
        """Apply the answer to a proposal."""
        replica = self._replicas.get(answer.partition)
        leader = None if replica is None else replica.leader
        if replica is None or leader is None or answer.state is None:
            return  # it no longer leads, or will send the proposal again
        has_advanced = leader.answered(answer.state)
        if leader.is_superseded:
            self.end(answer.partition)
        self._settle(replica, has_advanced=has_advanced)

    def _led(self, partition: TopicPartition, leader_epoch: int) -> tuple[Replica, LeaderState]:
        self.check_authority()
        replica = self._replicas.get(partition)
        leader = None if replica is None else replica.leader
        if replica is None or leader is None:
            raise DataPlaneRefused(f"{partition} is not led here")
        if leader.is_superseded:
            raise DataPlaneFenced(f"{partition}: the store has a newer leader epoch")
        if leader_epoch not in {ANY_EPOCH, leader.leader_epoch}:
            kind = DataPlaneFenced if leader_epoch < leader.leader_epoch else DataPlaneRefused
            raise kind(f"{partition} is led under epoch {leader.leader_epoch}, not {leader_epoch}")
        return replica, leader

    def _settle(self, replica: Replica, *, has_advanced: bool) -> None:
        """Update the ISR and the feeds after a change of a leader's state."""
        partition, leader = replica.partition, replica.leader
        if has_advanced:
            self.commits.advanced(partition, replica.log.high_watermark)
            self.feeds.mark(partition)
        if leader is not None and partition not in self._unsettled and not leader.is_settled():
            self._unsettled[partition] = None

    def _add(self, feed: Feed, partition: TopicPartition, room: int, frame: _Frame) -> int:
        """Add the data of one partition for a follower; returns its bytes of values."""
        place, replica = feed.places.get(partition), self._replicas.get(partition)
        leader = None if replica is None else replica.leader
        if place is None or replica is None or leader is None:
            return 0  # marked again when it leads
        if (place.topic_id, place.leader_epoch) != (replica.topic_id, leader.leader_epoch):
            return 0  # leader or follower has no instruction yet
        log = replica.log
        if place.noted_by is not leader and not self._note(feed.follower, place, replica, leader):
            if place.is_open:
                place.is_open = False
                theirs = log.epoch_end(place.last_epoch)
                frame.cuts.append(
                    [*partition, leader.leader_epoch, place.end_offset, *theirs],
                )
            return 0
        records: Sequence[LogRecord] = ()
        if place.is_open:
            end = min(log.end_offset, place.end_offset + MAX_RECORDS)
            records = bounded(log.read(place.end_offset, end), room)
            if records and leader.is_throttled(feed.follower):
                records = self._throttled(feed, partition, records)
        if not records and place.sent_watermark >= log.high_watermark:
            return 0
        place.is_open = place.is_open and not records
        place.sent_watermark = log.high_watermark
        head = [*partition, leader.leader_epoch, log.high_watermark, place.end_offset]
        frame.data.append([*head, record_rows(records)])
        return size_of(records)

    def _throttled(
        self, feed: Feed, partition: TopicPartition, records: Sequence[LogRecord]
    ) -> Sequence[LogRecord]:
        """The records that the throttle lets through now; without any, the partition waits."""
        if self.throttle.rate is None:
            return records
        granted = feed.granted.pop(partition, None)
        if granted is None:
            self.throttle.wait((feed, partition))
            return ()
        records = bounded(records, granted)
        self.throttle.spend(size_of(records) - granted)
        return records

    def _note(
        self, follower: int, place: FetchPlace, replica: Replica, leader: LeaderState
    ) -> bool:
        """Account for a follower's log end; False if its log is not a prefix of ours."""
        if not replica.log.agrees(place.end_offset, place.last_epoch):
            return False
        place.noted_by = leader
        now_s = self._clock.now_s()
        self._settle(replica, has_advanced=leader.fetched(follower, place.end_offset, now_s))
        return True


def bounded(records: Sequence[LogRecord], room: int) -> Sequence[LogRecord]:
    """As many records as fit ``room`` bytes of values, at least one."""
    for index, record in enumerate(records):
        room -= len(record.value)
        if room < 0 and index > 0:
            return records[:index]
    return records
