"""The protocol of a data plane that keeps replicas of partitions.

Docs: broker-process, kafka-design-v3. The daemon has checked the instructions that it forwards:
controller epoch and broker epoch are the newest, and this broker has a replica of each partition.
Topic id and leader epoch are checked again beside the log, since the daemon may have restarted
while the broker process kept running.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import LeaderAndIsr


class HeldReplica(NamedTuple):
    """A replica that the broker process has on disk.

    Attributes:
        leader_epoch: the newest one that it was instructed with.
        is_failed: its log cannot be read or written.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    is_failed: bool = False


class IsrProposal(NamedTuple):
    """An ISR that a leader requests; until the answer it counts the members of the larger ISR.

    Attributes:
        leader_epoch: under which it leads.
        version: of the node that it knows: the write is refused if the node has another version.
        isr: broker ids, ascending, the leader among them.
    """

    partition: TopicPartition
    leader_epoch: int
    version: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The answer to a proposal: the state in the store now.

    Attributes:
        state: None if the node is gone or could not be read; the leader proposes again later.
        is_granted: whether the proposal is the stored ISR, under the leader epoch of the proposing
            leader.
    """

    partition: TopicPartition
    state: LeaderAndIsr | None
    is_granted: bool


class ReplicaPlane(Protocol):
    """A broker process that keeps replicas.

    All methods raise `DataPlaneUnreachable` or `DataPlaneRefused`; each may be repeated. Partitions
    without an error in the answer are done.
    """

    def expect(self, instance_id: str) -> None:
        """Address every further call to this instance of the broker process only."""
        ...

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        """Lead: stop fetching, then take writes under the leader epoch, which is in ``state``.

        ``replicas`` are the only ones that may join the ISR. With an equal leader epoch only
        ``version``, ``isr``, ``replicas`` and ``min_isr`` are adopted; a smaller one is refused. An
        absent replica is created.
        """
        ...

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """Follow: accept no writes, truncate by leader epoch what the leader never had, then fetch.

        ``brokers`` are the addresses of the live brokers by id. Without a leader, or its address,
        nothing is fetched until the next call.
        """
        ...

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """Neither lead nor follow; if the stop is a deletion, also remove the log."""
        ...

    async def replicas(self) -> Sequence[HeldReplica]:
        """All that is held."""
        ...

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        """ISR changes that the leaders here request; each is repeated until it is answered.

        The leaders request to remove followers that have not caught up for ``lag_time_s``. Until
        the next call, ``throttle`` is how many bytes a second this broker may send to replicas that
        reassignments add, and as many may come to its own; None: any number.
        """
        ...

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        """Answer the leaders' proposals."""
        ...
