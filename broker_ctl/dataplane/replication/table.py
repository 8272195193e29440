"""The replicas that the simulated broker process holds, and the newest instruction for each.

Docs: kafka-design-v3. Topic id and leader epoch are checked here, beside the log: the broker
process may be older than the daemon that forwards the instructions.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from broker_ctl.core.partitions.instructions import (
    FAILED,
    STALE_EPOCH,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
    ReplicaError,
    ReplicaState,
    ReplicaStop,
)
from broker_ctl.core.partitions.names import TopicPartition, validate_topic
from broker_ctl.dataplane.replication.follower import FollowerState
from broker_ctl.dataplane.replication.log import ReplicaLog
from broker_ctl.dataplane.replication.replica import Replica
from broker_ctl.dataplane.replication.storage import Holding, ReplicaStorage
from broker_ctl.dataplane.webhook.replicas import HeldReplica
from broker_ctl.errors import InvalidName

log = logging.getLogger(__name__)

# Leader epoch of a replica without any instruction.
_NONE_YET: Final = -1


class LeaderSide(Protocol):
    """Leads partitions: `Leaderships`."""

    def begin(self, replica: Replica, instruction: ReplicaState) -> None:
        """Lead."""
        ...

    def on_repeated_instruction(self, replica: Replica, instruction: ReplicaState) -> None:
        """Apply an instruction with the same leader epoch."""
        ...

    def end(self, partition: TopicPartition) -> None:
        """Lead no more."""
        ...


class FollowerSide(Protocol):
    """Follows partitions: `Fetchers`."""

    def follow(self, partition: TopicPartition, leader: int) -> None:
        """Fetch from that broker, and from no other."""
        ...

    def forget(self, partition: TopicPartition) -> None:
        """Fetch no more."""
        ...


class ReplicaTable:
    """All replicas by partition; each leads, follows, or does neither."""

    def __init__(self, storage: ReplicaStorage) -> None:
        self._storage = storage
        self.replicas: dict[TopicPartition, Replica] = {}

    def load(self) -> None:
        """Load the stored replicas, without a role.

        Raises:
            OSError: it cannot be read.
        """
        self.replicas.clear()
        for partition, stored in self._storage.load().items():
            self.replicas[partition] = Replica(
                partition, stored.topic_id, stored.leader_epoch, ReplicaLog(stored.records)
            )

    def held(self) -> list[HeldReplica]:
        """The replicas as the daemon gets them."""
        return [
            HeldReplica(partition, held.topic_id, held.leader_epoch, held.is_failed)
            for partition, held in self.replicas.items()
        ]

    def lead(
        self, instruction: Sequence[ReplicaState], leaders: LeaderSide, followers: FollowerSide
    ) -> list[ReplicaError]:
        """Lead these partitions; fetching stops first."""
        errors: list[ReplicaError] = []
        taken = []
        for one in instruction:
            replica = self._judged(one, errors)
            if replica is None:
                continue
            if not _is_repeated(replica, one):
                taken.append((replica, one))
            elif replica.leader is not None:
                leaders.on_repeated_instruction(replica, one)
            else:
                errors.append(ReplicaError(one.partition, STALE_EPOCH))
        if not self._hold(taken, errors):
            return errors
        for replica, _ in taken:
            followers.forget(replica.partition)
        for replica, one in taken:
            leaders.begin(replica, one)
        return errors

    def follow(
        self, instruction: Sequence[ReplicaState], leaders: LeaderSide, followers: FollowerSide
    ) -> list[ReplicaError]:
        """Follow in these partitions; no write is accepted from here on."""
        errors: list[ReplicaError] = []
        taken = []
        for one in instruction:
            replica = self._judged(one, errors)
            if replica is None:
                continue
            if not _is_repeated(replica, one):
                taken.append((replica, one))
            elif replica.follower is None:
                errors.append(ReplicaError(one.partition, STALE_EPOCH))
            else:
                replica.role = replica.follower._replace(adding=one.adding)
        if not self._hold(taken, errors):
            return errors
        for replica, one in taken:
            leaders.end(replica.partition)
            replica.role = FollowerState(one.state.leader, one.state.leader_epoch, one.adding)
            followers.follow(replica.partition, one.state.leader)
        return errors

    def stop(
        self, stops: Sequence[ReplicaStop], leaders: LeaderSide, followers: FollowerSide
    ) -> list[ReplicaError]:
        """Neither lead nor follow; deletions apply whatever the leader epoch is (KIP-570)."""
        errors: list[ReplicaError] = []
        deleted = []
        for stop in stops:
            replica = self.replicas.get(stop.partition)
            if replica is None:
                continue
            if stop.topic_id != replica.topic_id:
                errors.append(ReplicaError(stop.partition, WRONG_TOPIC_ID))
            elif stop.leader_epoch < replica.leader_epoch and not stop.is_deleted:
                errors.append(ReplicaError(stop.partition, STALE_EPOCH))
            else:
                replica.role = None
                leaders.end(stop.partition)
                followers.forget(stop.partition)
                if stop.is_deleted:
                    deleted.append(stop.partition)
        return errors + self._remove(deleted)

    def _judged(self, instruction: ReplicaState, errors: list[ReplicaError]) -> Replica | None:
        """The replica, if the instruction is valid for it; a new one if it is not held."""
        partition, topic_id = instruction.partition, instruction.topic_id
        replica = self.replicas.get(partition)
        reason = None
        if replica is None:
            try:
                validate_topic(partition.topic)
            except InvalidName:
                reason = FAILED
            else:
                return Replica(partition, topic_id, _NONE_YET, ReplicaLog())
        elif replica.topic_id != topic_id:
            reason = WRONG_TOPIC_ID
        elif instruction.state.leader_epoch < replica.leader_epoch:
            reason = STALE_EPOCH
        elif replica.is_failed:
            reason = STORAGE_ERROR
        else:
            return replica
        errors.append(ReplicaError(partition, reason))
        return None

    def _hold(
        self, taken: Sequence[tuple[Replica, ReplicaState]], errors: list[ReplicaError]
    ) -> bool:
        """Store the leader epochs, in one write, before acting under them."""
        try:
            self._storage.hold(
                [
                    Holding(replica.partition, replica.topic_id, one.state.leader_epoch)
                    for replica, one in taken
                ]
            )
        except OSError as error:
            log.warning("cannot store %d replicas: %s; refusing them", len(taken), error)
            errors.extend(ReplicaError(replica.partition, STORAGE_ERROR) for replica, _ in taken)
            return False
        for replica, one in taken:
            replica.leader_epoch = one.state.leader_epoch
            self.replicas[replica.partition] = replica
        return True

    def _remove(self, partitions: Sequence[TopicPartition]) -> list[ReplicaError]:
        try:
            self._storage.remove(partitions)
        except OSError as error:
            log.warning("cannot delete %d replicas: %s; keeping them", len(partitions), error)
            return [ReplicaError(partition, STORAGE_ERROR) for partition in partitions]
        for partition in partitions:
            del self.replicas[partition]
        return []


def _is_repeated(replica: Replica, instruction: ReplicaState) -> bool:
    """Whether it already has a role under that leader epoch; false for all after a start."""
    return replica.role is not None and instruction.state.leader_epoch == replica.leader_epoch
