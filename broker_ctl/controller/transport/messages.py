"""Requests to brokers about replicas, and the interface of the transports that send them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from broker_ctl.codec import encode, encode_to_keep, wrap_encoded
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import (
    Instruction,
    ReplicaSpan,
    ReplicaState,
    ReplicaStop,
    adding_field,
    adding_row,
    compared_row,
    digest_of,
    entry_row,
    spans_field,
    stop_row,
)
from broker_ctl.core.partitions.values import BrokersChanged, LiveBroker, TopicPartition
from broker_ctl.store.interface import Operation


class PartitionUpdate(NamedTuple):
    """State of a partition for its replicas (Kafka: LeaderAndIsr); encoded once for all of them.

    Attributes:
        topic_id: of the topic at encoding time; the name may belong to another topic when sent.
        adding: replicas that a reassignment adds.
        compared: what a broker's state is compared with; empty: it is sent in any case.
    """

    topic_id: str
    row: bytes
    adding: tuple[int, ...] = ()
    compared: bytes = b""


# A new state of a partition, or the order to stop a replica.
ReplicaRequest = PartitionUpdate | ReplicaStop
# Requests to one broker, and to each broker by id. Empty requests carry only the live brokers.
BrokerRequests = dict[TopicPartition, ReplicaRequest]
RequestsByBroker = dict[int, BrokerRequests]

Requests = Mapping[TopicPartition, ReplicaRequest]
# An update of each replica of a broker.
FullRequests = Mapping[TopicPartition, PartitionUpdate]


class SharedUpdates(FullRequests):
    """Updates of all replicas of one broker, a part of those of all brokers.

    A dictionary for each broker would have an entry for each replica.
    """

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        updates: Mapping[TopicPartition, PartitionUpdate],
    ) -> None:
        self._partitions = partitions
        self._updates = updates

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def __getitem__(self, partition: TopicPartition) -> PartitionUpdate:
        return self._updates[partition]


MAX_BODY_BYTES: Final = 512 * 1024
# Of the requests in one body: they are encoded, and carried out, in a few milliseconds, so that a
# full instruction holds up neither loop.
MAX_REQUEST_BYTES: Final = 128 * 1024
# Upper bounds of the parts of an instruction: its head without brokers and topics; one broker; one
# stop with the longest name; a topic's id with its JSON punctuation, without the name.
_HEAD_BYTES: Final = 1024
_BROKER_BYTES: Final = 300
_STOP_BYTES: Final = 400
_TOPIC_BYTES: Final = 38
# Brackets, the partition's number and the broker ids of an added replica, without the topic's name.
_ADDING_BYTES: Final = 24
_ID_BYTES: Final = 11


def encode_update(replica: ReplicaState) -> PartitionUpdate:
    """Encode the state of a partition for its replicas."""
    return PartitionUpdate(replica.topic_id, encode_to_keep(entry_row(replica)), replica.adding)


def encode_comparable(replica: ReplicaState) -> PartitionUpdate:
    """The same for a full instruction, of which only what differs is sent."""
    return encode_update(replica)._replace(compared=encode_to_keep(compared_row(replica)))


# Reason of a failed stop whose broker died or restarted before it answered.
BROKER_GONE: Final = "broker_gone"


class StopResponse(NamedTuple):
    """Result of stopping a replica.

    Attributes:
        reason: None on success; else the reason given by the broker, or `BROKER_GONE`.
    """

    broker_id: int
    stop: ReplicaStop
    reason: str | None


class ResponseListener(Protocol):
    """Receives the answers of brokers; its methods do not block."""

    def on_stop_responses(self, responses: Sequence[StopResponse]) -> None:
        """Replicas were stopped, or will not be: the broker refused or is gone."""
        ...

    def unresponsive(self, broker_id: int) -> None:
        """A broker did not acknowledge an instruction in time; the instruction is still retried."""
        ...

    def responsive(self, broker_id: int) -> None:
        """The broker acknowledges again."""
        ...

    def queue_overflowed(self, broker_id: int) -> None:
        """Too many requests wait for the broker: one full instruction should replace them."""
        ...


class Transport(Protocol):
    """Sends requests to brokers, in order per broker; the newest of a partition wins."""

    def operations(self, by_broker: RequestsByBroker) -> Sequence[Operation]:
        """Operations for the transaction that writes the states carried by the requests."""
        ...

    def on_written(self, by_broker: RequestsByBroker, operations: Sequence[Operation]) -> None:
        """That transaction is committed, with these operations for the requests."""
        ...

    async def prepare_retry(self, by_broker: RequestsByBroker) -> None:
        """One of those operations was refused: create what the next attempt needs."""
        ...

    async def send(self, by_broker: RequestsByBroker) -> None:
        """Send requests outside of a transaction."""
        ...

    async def send_full(self, broker_id: int, requests: FullRequests) -> None:
        """Send all replicas of a broker, in place of all that waits for it."""
        ...

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """Drop what waits for brokers that died or restarted."""
        ...

    async def close(self) -> None:
        """Send nothing more."""
        ...


class FullPart(NamedTuple):
    """What one of the instructions that together are a full one says.

    Attributes:
        requests: an update of each replica in the span.
        after, until: the span, see `Instruction`.
    """

    requests: BrokerRequests
    after: TopicPartition | None
    until: TopicPartition | None


class InstructionEncoder:
    """Encodes requests as instructions.

    Args:
        broker_id: of the controller.
    """

    def __init__(self, broker_id: int, context: Context) -> None:
        self._broker_id = broker_id
        self._context = context

    def encode(
        self, broker: LiveBroker, requests: Requests
    ) -> Iterator[tuple[BrokerRequests, bytes]]:
        """Split the requests into instructions, each with the requests that it carries."""
        for chunk in self._split(requests, requests):
            yield chunk, self._body(self._head(broker), chunk)

    def encode_full(
        self, broker: LiveBroker, requests: Requests
    ) -> Iterator[tuple[BrokerRequests, bytes]]:
        """The same for all replicas of a broker: together the instructions span every name."""
        for part in self.split_full(requests):
            yield part.requests, self.encode_part(broker, part)

    def split_full(self, requests: Requests) -> Iterator[FullPart]:
        """The parts of a full instruction, built lazily."""
        after: TopicPartition | None = None
        chunks = self._split(sorted(requests), requests)
        chunk = next(chunks)
        for following in chunks:
            until = next(reversed(chunk))
            yield FullPart(chunk, after, until)
            after, chunk = until, following
        yield FullPart(chunk, after, None)

    def encode_part(self, broker: LiveBroker, part: FullPart) -> bytes:
        """A part of a full instruction."""
        head = self._head(broker, is_full=True, after=part.after, until=part.until)
        return self._body(head, part.requests)

    def encode_digests(self, broker: LiveBroker, parts: Iterable[FullPart]) -> bytes:
        """One instruction with the digests of these parts."""
        head = self._head(broker, is_full=True)
        return encode({**head, **spans_field([self._span(part) for part in parts])})

    def _span(self, part: FullPart) -> ReplicaSpan:
        rows = [update.compared for _, update in self._current_updates(part.requests)]
        # Where one cannot be compared, no broker has that digest.
        return ReplicaSpan(part.after, part.until, digest_of(rows) if all(rows) else "")

    def _split(
        self, order: Iterable[TopicPartition], requests: Requests
    ) -> Iterator[BrokerRequests]:
        """Chunks of the requests that each fit into one instruction, built lazily."""
        left = MAX_BODY_BYTES - _HEAD_BYTES - _BROKER_BYTES * len(self._context.brokers)
        most = min(left, MAX_REQUEST_BYTES)
        chunk: BrokerRequests = {}
        size, topic = 0, ""
        for partition in order:
            request = requests[partition]
            letter_bytes = _letter_bytes(partition, request)
            name_bytes = 0 if partition[0] == topic else len(partition[0]) + _TOPIC_BYTES
            if chunk and size + letter_bytes + name_bytes > most:
                yield chunk
                chunk, size = {}, 0
                name_bytes = len(partition[0]) + _TOPIC_BYTES
            chunk[partition] = request
            size += letter_bytes + name_bytes
            topic = partition[0]
        yield chunk

    def _head(
        self,
        broker: LiveBroker,
        *,
        is_full: bool = False,
        after: TopicPartition | None = None,
        until: TopicPartition | None = None,
    ) -> dict[str, Any]:
        context = self._context
        return Instruction(
            self._broker_id,
            context.epoch,
            broker.broker_id,
            broker.epoch,
            is_full,
            {each.broker_id: each.address for each in context.brokers.values()},
            after=after,
            until=until,
        ).head_row()

    def _current_updates(
        self, requests: BrokerRequests
    ) -> list[tuple[TopicPartition, PartitionUpdate]]:
        """The updates among the requests, without those of topics deleted meanwhile.

        Such an update must not be taken for one of a new topic with the same name (C1); the stops
        of such a topic are sent.
        """
        known = self._context.topics
        ids = {
            name: topic.topic_id
            for name in dict.fromkeys([partition[0] for partition in requests])
            if (topic := known.get(name)) is not None
        }
        return [
            (partition, request)
            for partition, request in requests.items()
            if isinstance(request, PartitionUpdate) and ids.get(partition[0]) == request.topic_id
        ]

    def _body(self, head: Mapping[str, Any], requests: BrokerRequests) -> bytes:
        sent = self._current_updates(requests)
        topics = {partition[0]: update.topic_id for partition, update in sent}
        adding = [adding_row(partition, of.adding) for partition, of in sent if of.adding]
        stops = [
            stop_row(request) for request in requests.values() if isinstance(request, ReplicaStop)
        ]
        partitions = wrap_encoded(b"[" + b",".join([update.row for _, update in sent]) + b"]")
        entries = {"topics": topics, "partitions": partitions, **adding_field(adding)}
        return encode({**head, **entries, "stops": stops})


def _letter_bytes(partition: TopicPartition, request: ReplicaRequest) -> int:
    """At most the bytes of one request in an instruction, without its topic."""
    if isinstance(request, ReplicaStop):
        return _STOP_BYTES
    size = len(request.row) + 1
    if request.adding:
        size += len(partition.topic) + _ADDING_BYTES + _ID_BYTES * len(request.adding)
    return size


def empty_requests(brokers: Collection[int]) -> RequestsByBroker:
    """Requests that carry only the live brokers."""
    return {broker_id: {} for broker_id in brokers}
