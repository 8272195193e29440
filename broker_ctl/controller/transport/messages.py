"""What goes to brokers, and how: letters by recipient, for one transport or the other."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from broker_ctl.codec import encode, encoded
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import (
    Instruction,
    ReplicaState,
    ReplicaStop,
    entry_row,
    stop_row,
)
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import BrokersChanged, LiveBroker
from broker_ctl.store.interface import Operation


class PartitionRequest(NamedTuple):
    """A partition as one of its replicas hears of it; encoded once for all of them.

    Attributes:
        topic_id: of the topic that it was written about, which may be another one when it goes.
    """

    topic_id: str
    row: bytes


# A partition's entry, or the end of a replica.
Letter = PartitionRequest | ReplicaStop
# Letters by recipient. An empty lot tells who lives, and nothing else.
Lot = dict[TopicPartition, Letter]
Mail = dict[int, Lot]

MAX_BODY_BYTES: Final = 512 * 1024
# At most, of an instruction: what is not a letter, without brokers and topics; a broker; an end
# with the longest name; a topic's id and what stands around it, without its name.
_HEAD_BYTES: Final = 1024
_BROKER_BYTES: Final = 300
_STOP_BYTES: Final = 400
_TOPIC_BYTES: Final = 38


def entry(replica: ReplicaState) -> PartitionRequest:
    """What its replicas hear of a partition."""
    return PartitionRequest(replica.topic_id, encode(entry_row(replica)))


# In place of a reason that the broker gave: it is no more, or had another life.
BROKER_GONE: Final = "broker_gone"


class StopAnswer(NamedTuple):
    """What became of the stop of a replica.

    Attributes:
        reason: None where it was done; else what the broker said, or `BROKER_GONE`.
    """

    broker_id: int
    stop: ReplicaStop
    reason: str | None


class ResponseListener(Protocol):
    """Who hears of what brokers answer; plain functions that do not block."""

    def stops_answered(self, answers: Sequence[StopAnswer]) -> None:
        """Replicas were stopped, or will not be: the broker refused, or is gone."""
        ...

    def fell_silent(self, broker_id: int) -> None:
        """An instruction has not been acknowledged in time; it is sent on all the same."""
        ...

    def spoke_again(self, broker_id: int) -> None:
        """It acknowledges again."""
        ...

    def overflowed(self, broker_id: int) -> None:
        """So much waits for it that it had better be told everything anew."""
        ...


class Transport(Protocol):
    """Brings letters to brokers, in order for each of them; the newest of a partition wins."""

    def operations(self, mail: Mail) -> Sequence[Operation]:
        """What must be in the transaction that writes the states that the mail tells of."""
        ...

    def written(self, mail: Mail, operations: Sequence[Operation]) -> None:
        """That transaction was done, with these operations for the mail."""
        ...

    async def prepare(self, mail: Mail) -> None:
        """One of those operations was refused: see to it that the next are not."""
        ...

    async def post(self, mail: Mail) -> None:
        """Mail that no transaction goes with."""
        ...

    async def post_full(self, broker_id: int, lot: Lot) -> None:
        """All replicas of a broker, instead of whatever waits for it."""
        ...

    async def brokers_changed(self, changed: BrokersChanged) -> None:
        """What waits for brokers that are gone, or were, goes."""
        ...

    async def close(self) -> None:
        """Send nothing more."""
        ...


class InstructionEncoder:
    """Makes instructions of letters.

    Args:
        broker_id: of the controller.
    """

    def __init__(self, broker_id: int, context: Context) -> None:
        self._broker_id = broker_id
        self._context = context

    def instructions(self, broker: LiveBroker, lot: Lot) -> Iterator[tuple[Lot, bytes]]:
        """The lot in as many instructions as it takes, each with what it says of it."""
        for part in self._parts(lot, lot):
            yield part, self._body(broker, part)

    def full_instructions(self, broker: LiveBroker, lot: Lot) -> Iterator[tuple[Lot, bytes]]:
        """The same for all replicas of a broker: together they span every name there is."""
        after: TopicPartition | None = None
        parts = self._parts(sorted(lot), lot)
        part = next(parts)
        for following in parts:
            until = next(reversed(part))
            yield part, self._body(broker, part, is_full=True, after=after, until=until)
            after, part = until, following
        yield part, self._body(broker, part, is_full=True, after=after)

    def _parts(self, order: Iterable[TopicPartition], lot: Lot) -> Iterator[Lot]:
        """Parts of the lot that fit into an instruction each, made when they are asked for."""
        most = MAX_BODY_BYTES - _HEAD_BYTES - _BROKER_BYTES * len(self._context.brokers)
        part: Lot = {}
        size, topic = 0, ""
        for partition in order:
            letter = lot[partition]
            letter_bytes = (
                len(letter.row) + 1 if isinstance(letter, PartitionRequest) else _STOP_BYTES
            )
            name_bytes = 0 if partition[0] == topic else len(partition[0]) + _TOPIC_BYTES
            if part and size + letter_bytes + name_bytes > most:
                yield part
                part, size = {}, 0
                name_bytes = len(partition[0]) + _TOPIC_BYTES
            part[partition] = letter
            size += letter_bytes + name_bytes
            topic = partition[0]
        yield part

    def _body(
        self,
        broker: LiveBroker,
        lot: Lot,
        *,
        is_full: bool = False,
        after: TopicPartition | None = None,
        until: TopicPartition | None = None,
    ) -> bytes:
        context = self._context
        head = Instruction(
            self._broker_id,
            context.epoch,
            broker.broker_id,
            broker.epoch,
            is_full,
            {each.broker_id: each.address for each in context.brokers.values()},
            after=after,
            until=until,
        ).head_row()
        # A letter of a topic that has ended meanwhile is left out, and its stops come: it is not to
        # be taken for one of the topic that has the name by now (C1).
        known = context.topics
        topics = {
            name: topic.topic_id
            for name in dict.fromkeys([partition[0] for partition in lot])
            if (topic := known.get(name)) is not None
        }
        entries = [
            letter.row
            for partition, letter in lot.items()
            if isinstance(letter, PartitionRequest) and topics.get(partition[0]) == letter.topic_id
        ]
        stops = [stop_row(letter) for letter in lot.values() if isinstance(letter, ReplicaStop)]
        partitions = encoded(b"[" + b",".join(entries) + b"]")
        return encode({**head, "topics": topics, "partitions": partitions, "stops": stops})


def announcement(brokers: Collection[int]) -> Mail:
    """Mail that says nothing but who lives."""
    return {broker_id: {} for broker_id in brokers}
