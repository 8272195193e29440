"""What this broker knows of its replicas, and which states the data plane has confirmed. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker_ctl.codec import encode_to_keep
from broker_ctl.core.partitions.instructions import (
    ReplicaError,
    ReplicaState,
    ReplicaStop,
    compared_row,
)
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.replica_spans import Span, digest_of, within
from broker_ctl.dataplane.webhook.replicas import HeldReplica


class KnownReplica(NamedTuple):
    """What this broker knows of one of its replicas.

    Attributes:
        may_lead: from the instruction to lead until the data plane has confirmed another role.
    """

    topic_id: str
    leader_epoch: int
    may_lead: bool


class KnownReplicas:
    """The replicas of this broker in one registration.

    A state is confirmed once the data plane has taken it, until the replica gets another one or
    may have got another one: only then a controller may leave it out of its instructions.

    Attributes:
        removals: grows when a replica may have been removed, also from one registration to another.
    """

    def __init__(self, held: Iterable[HeldReplica] = (), removals: int = 0) -> None:
        self.removals = removals
        self._replicas = {
            one.partition: KnownReplica(one.topic_id, one.leader_epoch, may_lead=False)
            for one in held
        }
        # Encoded, as a controller digests them.
        self._confirmed: dict[TopicPartition, bytes] = {}
        # None: replicas came or went since they were sorted.
        self._ordered: list[TopicPartition] | None = None

    def __len__(self) -> int:
        return len(self._replicas)

    def get(self, partition: TopicPartition) -> KnownReplica | None:
        """The replica; None: it is not held."""
        return self._replicas.get(partition)

    def led(self) -> Iterator[HeldReplica]:
        """The replicas that lead, or may still lead."""
        for partition, (topic_id, leader_epoch, may_lead) in self._replicas.items():
            if may_lead:
                yield HeldReplica(partition, topic_id, leader_epoch)

    def put(self, partition: TopicPartition, replica: KnownReplica) -> None:
        """Set what is known of a replica; its state is not confirmed yet."""
        replicas, confirmed = self._replicas, self._confirmed
        if partition not in replicas:
            self._ordered = None
        replicas[partition] = replica
        if partition in confirmed:
            del confirmed[partition]

    def on_stopped(self, stop: ReplicaStop) -> None:
        """The data plane has stopped a replica; its newest leader epoch stays known."""
        known = self._replicas.get(stop.partition)
        if stop.is_deleted:
            self.remove(stop.partition)
        elif known is not None:
            epoch = max(known.leader_epoch, stop.leader_epoch)
            self.put(stop.partition, KnownReplica(known.topic_id, epoch, may_lead=False))

    def remove(self, partition: TopicPartition) -> None:
        """Forget a replica that is not held any more."""
        self.removals += 1
        if self._replicas.pop(partition, None) is not None:
            self._ordered = None
        self._confirmed.pop(partition, None)

    def doubt(self, partitions: Iterable[TopicPartition]) -> None:
        """These replicas may get another state, or may have got it."""
        for partition in partitions:
            self._confirmed.pop(partition, None)

    def confirm(
        self,
        replicas: Iterable[ReplicaState],
        broker_id: int,
        errors: Iterable[ReplicaError] = (),
    ) -> None:
        """The data plane has taken these states of replicas on this broker, except for errors."""
        known, confirmed = self._replicas, self._confirmed
        failed = {partition for partition, _ in errors}
        for replica in replicas:
            partition = replica.partition
            if partition in failed:
                continue
            if replica.state.leader != broker_id and known[partition].may_lead:
                known[partition] = known[partition]._replace(may_lead=False)
            confirmed[partition] = encode_to_keep(compared_row(replica))

    def within(
        self, after: TopicPartition | None, until: TopicPartition | None
    ) -> Sequence[TopicPartition]:
        """The replicas in a span, in order."""
        if self._ordered is None:
            self._ordered = sorted(self._replicas)
        return within(self._ordered, after, until)

    def unnamed(
        self,
        named: Mapping[TopicPartition, str],
        after: TopicPartition | None,
        until: TopicPartition | None,
    ) -> list[HeldReplica]:
        """The replicas in a span that are not named with their topic id."""
        return [
            HeldReplica(partition, known.topic_id, known.leader_epoch)
            for partition in self.within(after, until)
            if named.get(partition) != (known := self._replicas[partition]).topic_id
        ]

    def is_as(self, span: Span) -> bool:
        """Whether exactly the replicas of a controller's span are held, in the same states."""
        confirmed = self._confirmed
        rows = [confirmed.get(each, b"") for each in self.within(span.after, span.until)]
        return all(rows) and digest_of(rows) == span.digest
