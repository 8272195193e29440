"""The replicas of the simulated broker process."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.instructions import (
    FAILED,
    STALE_EPOCH,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
    ReplicaError,
    ReplicaState,
    ReplicaStop,
)
from broker_ctl.core.partitions.values import TopicPartition, validate_topic
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer, IsrProposal
from broker_ctl.errors import InvalidName, StartError
from broker_ctl.lab.replication.fetchers import Fetchers
from broker_ctl.lab.replication.leaderships import Leaderships
from broker_ctl.lab.replication.log import FollowerState, ReplicaLog
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.server import ReplicaServer
from broker_ctl.lab.replication.storage import Holding, ReplicaStorage
from broker_ctl.lab.replication.tcp import Network, ReplicaListener

log = logging.getLogger(__name__)

# The replicas that the simulated broker process holds, and the newest instruction for each.
#
# Docs: kafka-design-v3. Topic id and leader epoch are checked here, beside the log: the broker
# process may be older than the daemon that forwards the instructions.


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


# The replicas of the simulated broker process.


class SimulatedReplicas:
    """Keeps replicated logs, and serves them to followers and clients at its own address.

    It accepts and acknowledges writes only while ``authority()`` is valid. Records are never
    deleted, and are kept in memory too: this is a broker process for tests and measurements.

    A stop discards unanswered proposals. A daemon may instruct the next process to lead under the
    same leader epoch only after it has read the partition's state at a time when no such proposal
    can be written any more: otherwise a member that joined by one of them would not count.

    Args:
        broker_id: number of this broker in the replica lists.
        address: ``host:port`` to listen at.
        storage: stores the replicas; `MemoryStorage` or `DirectoryStorage`.
        network: connects it with its peers; live: `TcpNetwork`.
        clock: for authority and the lag of followers.
        authority: current deadline of write authority; called at each write.
    """

    def __init__(
        self,
        broker_id: int,
        address: str,
        storage: ReplicaStorage,
        network: Network,
        *,
        clock: Clock,
        authority: Callable[[], Authority],
        rng: random.Random,
    ) -> None:
        self._address = address
        self._storage = storage
        self._network = network
        self._table = ReplicaTable(storage)
        held = self._table.replicas
        self._leaders = Leaderships(broker_id, held, storage, clock=clock, authority=authority)
        self._fetchers = Fetchers(
            broker_id, held, storage, network, self._leaders.fail, clock=clock, rng=rng
        )
        self._server = ReplicaServer(held, self._leaders, clock)
        self._listener: ReplicaListener | None = None

    async def start(self) -> None:
        """Load the replicas, and listen; no replica leads or follows before the first call.

        Raises:
            StartError: the address is taken, or the storage cannot be read.
        """
        self._server.open()
        try:
            self._table.load()
            self._listener = await self._network.listen(self._address, self._server.serve)
        except OSError as error:
            reason = f"replicas at {self._address}: {error}; see brokerServicePort"
            raise StartError(reason) from error

    async def stop(self) -> None:
        """Close all connections and resources. Replicas stay on disk."""
        await self._fetchers.close()
        self._server.close()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        self._storage.close()

    def fail_storage(self, partition: TopicPartition) -> None:
        """Make the log of a replica fail every read and write, until the next start."""
        self._fetchers.forget(partition)
        self._leaders.fail(self._table.replicas[partition])

    def expect(self, instance_id: str) -> None:
        """Do nothing: the plane runs in the process of its caller.

        Its instance therefore never changes.
        """

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        """See `ReplicaPlane`."""
        errors = self._table.lead(replicas, self._leaders, self._fetchers)
        self._fetchers.settle({})
        return errors

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """See `ReplicaPlane`."""
        errors = self._table.follow(replicas, self._leaders, self._fetchers)
        self._fetchers.settle(brokers)
        return errors

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """See `ReplicaPlane`."""
        errors = self._table.stop(stops, self._leaders, self._fetchers)
        self._fetchers.settle({})
        return errors

    async def replicas(self) -> Sequence[HeldReplica]:
        """All that is held."""
        return self._table.held()

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        """ISR changes that the leaders here propose; settled leaders are not visited."""
        for side in (self._leaders, self._fetchers):
            side.throttle.set_rate(throttle)
            side.release()
        return self._leaders.proposals(lag_time_s)

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        """Apply the answers to proposals."""
        for answer in answers:
            self._leaders.answer(answer)
