"""Instructions of the controller to a broker, for ZKQueue and for HTTP (docs: kafka-design-v3).

An instruction carries three epochs and the topic ids, so that a broker that gets it too late, or
in another session, notices (docs: kafka-fencing): the controller epoch and the broker
epoch of the whole, and the leader epoch of each partition.

As JSON::

    {"version": 1, "controller": ID, "controller_epoch": N, "broker": ID, "broker_epoch": CZXID,
     "full": BOOL, "after": [TOPIC, PARTITION] or null, "until": [TOPIC, PARTITION] or null,
     "brokers": {"ID": "host:port", ...}, "topics": {"NAME": "TOPIC_ID", ...},
     "partitions": [[TOPIC, PARTITION, LEADER, LEADER_EPOCH, CONTROLLER_EPOCH, VERSION,
                     [ISR...], [REPLICAS...], IS_RECOVERING, MIN_ISR], ...],
     "stops": [[TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, IS_DELETED], ...]}

``full`` says that ``partitions`` names every replica of the broker behind ``after`` and up to
``until``, in the order of topic and number: whatever else it holds there is a stray, and goes. Null
is the one end or the other: what is too much for one instruction comes in several, each of which
stands for itself. The entry of a partition is the same for all recipients: it is encoded once.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.errors import CorruptRecord, NewerVersion

FORMAT_VERSION: Final = 1


class ReplicaState(NamedTuple):
    """State of a partition for one of its replicas: lead, or follow the leader.

    Attributes:
        replicas: those that may be in sync: the assigned ones, without brokers that are about to
            stop.
        min_isr: with fewer in sync the leader takes nothing that is to be committed.
    """

    partition: TopicPartition
    topic_id: str
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    min_isr: int = 1


class ReplicaStop(NamedTuple):
    """End a replica. One that is deleted goes whatever its leader epoch (KIP-570).

    But where that is older than what the broker knows, and the store has the replica there, it was
    sent before the replica came back: it stays.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    is_deleted: bool


class ReplicaError(NamedTuple):
    """Why a replica does not follow its instruction; ``reason`` is one of `REASONS`."""

    partition: TopicPartition
    reason: str


# The log cannot be read or written; the instruction was older than what is known; the topic is
# another one by the same name; this broker has no replica of it; the data plane failed otherwise.
STORAGE_ERROR: Final = "storage_error"
STALE_EPOCH: Final = "stale_epoch"
WRONG_TOPIC_ID: Final = "wrong_topic_id"
NO_REPLICA: Final = "no_replica"
FAILED: Final = "failed"
REASONS: Final = frozenset({STORAGE_ERROR, STALE_EPOCH, WRONG_TOPIC_ID, NO_REPLICA, FAILED})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One message to a broker.

    Attributes:
        brokers: ``host:port`` of the broker processes that live, by id: whom to follow where.
        after, until: the span that a full one covers; None: from the first, to the
            last.
    """

    controller: int
    controller_epoch: int
    broker: int
    broker_epoch: int
    is_full: bool = False
    brokers: Mapping[int, str] = field(default_factory=dict)
    partitions: Sequence[ReplicaState] = ()
    stops: Sequence[ReplicaStop] = ()
    after: TopicPartition | None = None
    until: TopicPartition | None = None

    def covered_partitions(self, ordered: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Those of ascending partitions of which a replica that is not named here is a stray."""
        if not self.is_full:
            return ()
        begin = 0 if self.after is None else bisect_right(ordered, self.after)
        end = len(ordered) if self.until is None else bisect_right(ordered, self.until)
        return ordered[begin:end]

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> "Instruction":
        """Read the plain form.

        Raises:
            CorruptRecord: it does not fit. NewerVersion: a newer release wrote it.
        """
        try:
            if row["version"] > FORMAT_VERSION:
                raise NewerVersion(f"an instruction in format {row['version']}")
            topics = row["topics"]
            return cls(
                int(row["controller"]),
                int(row["controller_epoch"]),
                int(row["broker"]),
                int(row["broker_epoch"]),
                bool(row["full"]),
                {int(broker): str(address) for broker, address in row["brokers"].items()},
                [entry_of(entry, topics) for entry in row["partitions"]],
                [stop_of(entry) for entry in row["stops"]],
                _end(row.get("after")),
                _end(row.get("until")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptRecord(f"an instruction that does not fit: {error!r}") from error

    def to_row(self) -> dict[str, Any]:
        """The plain form; for large ones there is `head_row` with entries that are encoded."""
        return {
            **self.head_row(),
            "topics": {state.partition.topic: state.topic_id for state in self.partitions},
            "partitions": [entry_row(state) for state in self.partitions],
            "stops": [stop_row(stop) for stop in self.stops],
        }

    def head_row(self) -> dict[str, Any]:
        """All but topics, partitions and stops."""
        return {
            "version": FORMAT_VERSION,
            "controller": self.controller,
            "controller_epoch": self.controller_epoch,
            "broker": self.broker,
            "broker_epoch": self.broker_epoch,
            "full": self.is_full,
            "after": self.after and list(self.after),
            "until": self.until and list(self.until),
            "brokers": {str(broker): address for broker, address in self.brokers.items()},
        }


def entry_row(replica: ReplicaState) -> list[Any]:
    """The plain form of a partition's entry, the same for every recipient."""
    (topic, partition), _, state, replicas, min_isr = replica
    leader, leader_epoch, isr, controller_epoch, is_recovering, version = state
    return [
        topic,
        partition,
        leader,
        leader_epoch,
        controller_epoch,
        version,
        isr,
        replicas,
        is_recovering,
        min_isr,
    ]


def stop_row(stop: ReplicaStop) -> list[Any]:
    """The plain form of a stop."""
    return [*stop.partition, stop.topic_id, stop.leader_epoch, stop.is_deleted]


def entry_of(entry: Sequence[Any], topics: Mapping[str, str]) -> ReplicaState:
    """What `entry_row` wrote; raises what Python does where it does not fit."""
    topic, number, leader, epoch, controller_epoch, version, isr, replicas, flag, min_isr = entry
    state = LeaderAndIsr(leader, epoch, tuple(isr), controller_epoch, bool(flag), version)
    named = TopicPartition(topic, number)
    return ReplicaState(named, topics[topic], state, tuple(replicas), min_isr)


def _end(entry: Sequence[Any] | None) -> TopicPartition | None:
    return None if entry is None else TopicPartition(str(entry[0]), int(entry[1]))


def stop_of(entry: Sequence[Any]) -> ReplicaStop:
    """What `stop_row` wrote; as `entry_of`."""
    topic, partition, topic_id, leader_epoch, is_deleted = entry
    return ReplicaStop(TopicPartition(topic, partition), topic_id, leader_epoch, bool(is_deleted))
