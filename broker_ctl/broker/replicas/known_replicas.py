"""What this broker knows of its replicas, and which states the data plane has confirmed. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker_ctl.codec import encode_to_keep
from broker_ctl.core.partitions.instructions import ReplicaState, ReplicaStop, compared_row
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.replica_spans import Span, digest_of, within
from broker_ctl.dataplane.webhook.replicas import HeldReplica


class KnownReplica(NamedTuple):
    """What this broker knows of one of its replicas."""

    topic_id: str
    leader_epoch: int
    is_leader: bool


class KnownReplicas:
    """The replicas of this broker in one registration.

    A state is confirmed once the data plane has taken it, until the replica gets another one or
    may have got another one: only then a controller may leave it out of its instructions.
    """

    def __init__(self, held: Iterable[HeldReplica] = ()) -> None:
        self._replicas = {
            one.partition: KnownReplica(one.topic_id, one.leader_epoch, is_leader=False)
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

    def led(self) -> Iterator[tuple[TopicPartition, KnownReplica]]:
        """The replicas that lead."""
        return (one for one in self._replicas.items() if one[1].is_leader)

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
            self.put(stop.partition, KnownReplica(known.topic_id, epoch, is_leader=False))

    def remove(self, partition: TopicPartition) -> None:
        """Forget a replica that is not held any more."""
        if self._replicas.pop(partition, None) is not None:
            self._ordered = None
        self._confirmed.pop(partition, None)

    def doubt(self, partitions: Iterable[TopicPartition]) -> None:
        """These replicas may get another state, or may have got it."""
        for partition in partitions:
            self._confirmed.pop(partition, None)

    def confirm(self, replicas: Iterable[ReplicaState]) -> None:
        """The data plane has taken these states."""
        confirmed = self._confirmed
        for replica in replicas:
            confirmed[replica.partition] = encode_to_keep(compared_row(replica))

    def within(
        self, after: TopicPartition | None, until: TopicPartition | None
    ) -> Sequence[TopicPartition]:
        """The replicas in a span, in order."""
        if self._ordered is None:
            self._ordered = sorted(self._replicas)
        return within(self._ordered, after, until)

    def is_as(self, span: Span) -> bool:
        """Whether exactly the replicas of a controller's span are held, in the same states."""
        confirmed = self._confirmed
        rows = [confirmed.get(each, b"") for each in self.within(span.after, span.until)]
        return all(rows) and digest_of(rows) == span.digest
