"""Instructions of the controller, and the spans whose digests confirm them.

Instructions of the controller to a broker, for ZKQueue and for HTTP (docs: kafka-design-v3).

An instruction carries three epochs and the topic ids, so that a broker notices if it arrives late
or in another session (docs: kafka-fencing): one controller epoch and one broker epoch for the whole
instruction, and the leader epoch of each partition.

As JSON::

    {"version": 1, "controller": ID, "controller_epoch": N, "broker": ID, "broker_epoch": CZXID,
     "full": BOOL, "after": [TOPIC, PARTITION] or null, "until": [TOPIC, PARTITION] or null,
     "brokers": {"ID": "host:port", ...}, "topics": {"NAME": "TOPIC_ID", ...},
     "partitions": [[TOPIC, PARTITION, LEADER, LEADER_EPOCH, CONTROLLER_EPOCH, VERSION,
                     [ISR...], [REPLICAS...], IS_RECOVERING, MIN_ISR], ...],
     "adding": [[TOPIC, PARTITION, [ID...]], ...],
     "stops": [[TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, IS_DELETED], ...]}

``full`` means that ``partitions`` names every replica of the broker after ``after`` and up to
``until``, ordered by topic and number: any other replica in that span is a stray, and is removed.
Null means the beginning or the end. If the replicas do not fit into one instruction there are
several, each valid by itself. The entry of a partition is the same for all recipients, and is
encoded once. ``adding`` names the replicas that a reassignment adds, for the throttle of those that
are not in sync yet; absent: none. A broker can do without it.

An instruction with digests has, instead of topics, partitions and stops::

     "spans": [[AFTER, UNTIL, DIGEST], ...]

The broker changes nothing but the addresses, and answers in which spans it has other replicas, or
other states, than those of the digest (`replica_spans`); these spans are then sent in full. A
broker of a release that does not know digests refuses it, because its other parts are missing.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition, validate_topic
from broker_ctl.errors import CorruptRecord, InvalidName, NewerVersion

# Spans of a broker's replicas, and digests of what it was instructed with in them. Pure.
#
# A controller that takes over does not repeat to a broker what that broker has: it sends a digest
# of each span of the broker's replicas, and the broker answers in which spans it has anything
# else. Both sides encode what is compared by the same code (`instructions.compared_row`). If a
# release encodes it otherwise, the digests differ, and everything is sent.


_BYTES: Final = 16
# In one instruction: some ten thousand replicas, compared within a few milliseconds.
MAX_SPANS: Final = 16


class ReplicaSpan(NamedTuple):
    """Names of replicas, ordered by topic and number, and a digest of those of a broker among them.

    Attributes:
        after, until: as those of a full instruction.
        digest: see `digest_of`.
    """

    after: TopicPartition | None
    until: TopicPartition | None
    digest: str


def within(
    ordered: Sequence[TopicPartition], after: TopicPartition | None, until: TopicPartition | None
) -> Sequence[TopicPartition]:
    """The part of ascending partitions in a span; None: from the first, to the last."""
    begin = 0 if after is None else bisect_right(ordered, after)
    end = len(ordered) if until is None else bisect_right(ordered, until)
    return ordered[begin:end]


def digest_of(rows: Iterable[bytes]) -> str:
    """Digest of what is compared of replicas, encoded, in the order of their names."""
    return blake2b(b",".join(rows), digest_size=_BYTES).hexdigest()


def spans_field(spans: Collection[ReplicaSpan]) -> dict[str, Any]:
    """The field ``spans`` of an instruction."""
    return {"spans": [[_end_row(after), _end_row(until), of] for after, until, of in spans]}


def spans_of(rows: Sequence[Any]) -> tuple[ReplicaSpan, ...]:
    """Parse what `spans_field` wrote; raises Python's own errors if it is not valid."""
    if not 1 <= len(rows) <= MAX_SPANS:
        raise ValueError(f"{len(rows)} spans; 1 to {MAX_SPANS} are allowed")
    return tuple(ReplicaSpan(end_of(after), end_of(until), str(of)) for after, until, of in rows)


def end_of(entry: Sequence[Any] | None) -> TopicPartition | None:
    """Parse an end of a span; raises as `spans_of`."""
    return None if entry is None else TopicPartition(str(entry[0]), int(entry[1]))


def _end_row(end: TopicPartition | None) -> list[Any] | None:
    return None if end is None else list(end)


FORMAT_VERSION: Final = 1
# Not bool, which is a type of its own.
_INTEGER: Final = frozenset({int})
# Replicas that reassignments add, by partition.
Adding = Mapping[TopicPartition, tuple[int, ...]]
NONE_ADDED: Final[Adding] = {}


class ReplicaState(NamedTuple):
    """State of a partition for one of its replicas: lead, or follow the leader.

    Attributes:
        replicas: replicas that may be in sync: the assigned ones, without stopping brokers.
        min_isr: minimum of in-sync replicas with which the leader accepts records with acks=all.
        adding: replicas that a reassignment adds; until they are in sync the throttle applies.
    """

    partition: TopicPartition
    topic_id: str
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    min_isr: int = 1
    adding: tuple[int, ...] = ()


class ReplicaStop(NamedTuple):
    """Stop a replica, and optionally delete it. A deletion applies at any leader epoch (KIP-570).

    Exception: the broker ignores a stop with an older leader epoch than it knows if the store
    assigns the replica to it: the controller sent that stop before it assigned the replica again.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    is_deleted: bool


class ReplicaError(NamedTuple):
    """A replica that failed to follow its instruction; ``reason`` is one of `REASONS`."""

    partition: TopicPartition
    reason: str


# In this order: the log cannot be read or written; the instruction is older than the known state;
# another topic has the name; the broker has no replica of the partition; any other failure.
STORAGE_ERROR: Final = "storage_error"
STALE_EPOCH: Final = "stale_epoch"
WRONG_TOPIC_ID: Final = "wrong_topic_id"
NO_REPLICA: Final = "no_replica"
FAILED: Final = "failed"
REASONS: Final = frozenset({STORAGE_ERROR, STALE_EPOCH, WRONG_TOPIC_ID, NO_REPLICA, FAILED})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction to a broker.

    Attributes:
        brokers: ``host:port`` of the live broker processes by id, for followers.
        after, until: span of a full instruction; None: from the first, to the last.
        spans: of an instruction with digests; the sequences are empty then.
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
    spans: Sequence[ReplicaSpan] = ()

    def covered_partitions(self, ordered: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """The part of ascending partitions in which unnamed replicas are strays."""
        return within(ordered, self.after, self.until) if self.is_full else ()

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> "Instruction":
        """Parse the plain form.

        Raises:
            CorruptRecord: a field is not valid. NewerVersion: a newer release wrote it.
        """
        try:
            if row["version"] > FORMAT_VERSION:
                raise NewerVersion(f"an instruction in format {row['version']}")
            head = cls(
                int(row["controller"]),
                int(row["controller_epoch"]),
                int(row["broker"]),
                int(row["broker_epoch"]),
                bool(row["full"]),
                {int(broker): str(address) for broker, address in row["brokers"].items()},
                after=end_of(row.get("after")),
                until=end_of(row.get("until")),
            )
            if "spans" in row:
                return replace(head, spans=spans_of(row["spans"]))
            topics, adding = row["topics"], adding_of(row)
            stops = [stop_of(entry) for entry in row["stops"]]
            for name in {*topics, *(stop.partition.topic for stop in stops)}:
                validate_topic(name)
            return replace(
                head,
                partitions=[entry_of(entry, topics, adding) for entry in row["partitions"]],
                stops=stops,
            )
        except KeyError as error:
            raise CorruptRecord(f"an instruction without {error}") from error
        except (TypeError, ValueError, AttributeError, InvalidName) as error:
            raise CorruptRecord(f"an instruction that does not fit: {error}") from error

    def to_row(self) -> dict[str, Any]:
        """The plain form; for large ones use `head_row` and encoded entries."""
        if self.spans:
            return {**self.head_row(), **spans_field(self.spans)}
        return {
            **self.head_row(),
            "topics": {state.partition.topic: state.topic_id for state in self.partitions},
            "partitions": [entry_row(state) for state in self.partitions],
            **adding_field(
                [adding_row(each.partition, each.adding) for each in self.partitions if each.adding]
            ),
            "stops": [stop_row(stop) for stop in self.stops],
        }

    def head_row(self) -> dict[str, Any]:
        """The plain form without topics, partitions, stops and spans."""
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
    (topic, partition), _, state, replicas, min_isr, _ = replica
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


def compared_row(replica: ReplicaState) -> list[Any]:
    """What a broker must have of a partition so that its entry need not be sent again.

    The ISR, the version of the node and the flag are not part of it. Under one leader epoch only
    the leader changes them, by proposals which it repeats until it knows the outcome.
    """
    (topic, partition), topic_id, state, replicas, min_isr, adding = replica
    leader, leader_epoch, *_ = state
    return [topic, partition, topic_id, leader, leader_epoch, replicas, min_isr, adding]


def stop_row(stop: ReplicaStop) -> list[Any]:
    """The plain form of a stop."""
    return [*stop.partition, stop.topic_id, stop.leader_epoch, stop.is_deleted]


def adding_row(partition: TopicPartition, adding: Sequence[int]) -> list[Any]:
    """The plain form of the replicas that a reassignment adds to a partition."""
    return [*partition, adding]


def adding_field(rows: Sequence[Any]) -> dict[str, Any]:
    """The field ``adding`` of an instruction; absent if there are none."""
    return {"adding": rows} if rows else {}


def adding_of(row: Mapping[str, Any]) -> Adding:
    """Parse what `adding_field` wrote; raises as `entry_of`."""
    return {
        TopicPartition(str(topic), int(number)): tuple(map(int, brokers))
        for topic, number, brokers in row.get("adding", ())
    }


def entry_of(
    entry: Sequence[Any], topics: Mapping[str, str], adding: Adding = NONE_ADDED
) -> ReplicaState:
    """Parse what `entry_row` wrote; raises Python's own errors if it is not valid."""
    topic, number, leader, epoch, controller_epoch, version, isr, replicas, flag, min_isr = entry
    _require_integers((number, leader, epoch, controller_epoch, version, min_isr, *isr, *replicas))
    state = LeaderAndIsr(leader, epoch, tuple(isr), controller_epoch, bool(flag), version)
    named = TopicPartition(topic, number)
    return ReplicaState(
        named, topics[topic], state, tuple(replicas), min_isr, adding.get(named, ())
    )


def stop_of(entry: Sequence[Any]) -> ReplicaStop:
    """Parse what `stop_row` wrote; raises as `entry_of`."""
    topic, partition, topic_id, leader_epoch, is_deleted = entry
    _require_integers((partition, leader_epoch))
    return ReplicaStop(TopicPartition(topic, partition), topic_id, leader_epoch, bool(is_deleted))


def _require_integers(values: Sequence[Any]) -> None:
    # Brokers compare and sort what they remember: another type would fail all later instructions.
    if not _INTEGER.issuperset(map(type, values)):
        raise TypeError(f"integers expected: {values}")
