"""The part of a data plane that keeps replicas of partitions.

Docs: broker-process, kafka-design-v3. The daemon has judged what it hands on here: controller epoch
and broker epoch are the newest, and this broker has a replica of each partition. Topic id and
leader epoch are judged again where the log is, since the daemon may have been started anew and the
broker process not.
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
        leader_epoch: the newest that it was told.
        is_failed: its log cannot be read or written.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    is_failed: bool = False


class IsrWish(NamedTuple):
    """What a leader here would have in sync; it counts the larger of both ISRs until it is told.

    Attributes:
        leader_epoch: under which it leads.
        version: of the node that it knows: the write is refused where it is another one.
        isr: broker ids, ascending, the leader among them.
    """

    partition: TopicPartition
    leader_epoch: int
    version: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """What became of a wish: the state as it stands in the store now.

    Attributes:
        state: None where the node is gone, or could not be read: wish again later.
        is_granted: the wish is what stands there, under the leader epoch of who wished.
    """

    partition: TopicPartition
    state: LeaderAndIsr | None
    is_granted: bool


class ReplicaPlane(Protocol):
    """A broker process that keeps replicas.

    All methods raise `DataPlaneUnreachable` or `DataPlaneRefused`; each may be repeated. What is
    not in the answer was done.
    """

    def expect(self, instance_id: str) -> None:
        """From here on every call is meant for this instance of the broker process only."""
        ...

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        """Lead: stop fetching, then take writes under the leader epoch, which is in ``state``.

        ``replicas`` are those that may be in sync: no other is to be wished for. An equal leader
        epoch is no news, but for ``version``, ``isr``, ``replicas`` and ``min_isr``, which are
        taken over; a smaller one is refused. A replica that is not there is made.
        """
        ...

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """Follow: take no writes, cut off by leader epoch what the leader never had, then fetch.

        ``brokers`` are the addresses of the live ones by id. With no leader, or one without an
        address, nothing is fetched until the next call.
        """
        ...

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """Neither lead nor follow; where it is deleted, also remove the log."""
        ...

    async def replicas(self) -> Sequence[HeldReplica]:
        """All that is held."""
        ...

    async def isr_wishes(self, lag_time_s: float) -> Sequence[IsrWish]:
        """What the leaders here would change; the same again until it is answered.

        A follower that has not caught up for ``lag_time_s`` is to leave the ISR.
        """
        ...

    async def answer_wishes(self, answers: Sequence[IsrAnswer]) -> None:
        """Tell what became of them."""
        ...
