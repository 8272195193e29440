"""The replicas of the simulated broker process."""

import random
from collections.abc import Callable, Mapping, Sequence

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.bundles.authority import Authority
from broker_ctl.dataplane.replication.fetchers import Fetchers
from broker_ctl.dataplane.replication.leaderships import Leaderships
from broker_ctl.dataplane.replication.network import Listener, Network
from broker_ctl.dataplane.replication.server import ReplicaServer
from broker_ctl.dataplane.replication.storage import ReplicaStorage
from broker_ctl.dataplane.replication.table import ReplicaTable
from broker_ctl.dataplane.webhook.replicas import HeldReplica, IsrAnswer, IsrProposal
from broker_ctl.errors import StartError


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
        self._listener: Listener | None = None

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
