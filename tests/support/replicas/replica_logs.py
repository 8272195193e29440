"""I9 in the records that clients saw and in the logs of replicas.

No committed record is lost, and all replicas have the same committed records. A record that a
consumer received is as committed as one that was acknowledged to its producer: from then on no
consumer may receive another one at that offset.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition


class Acknowledged(NamedTuple):
    """A record that was acknowledged to its producer as committed.

    Attributes:
        leader_epoch: under which it was acknowledged.
        broker: the one that acknowledged it.
        producer, sequence: its sender, and its number there; a producer sends one at a time.
    """

    partition: TopicPartition
    offset: int
    value: bytes
    leader_epoch: int
    broker: int
    producer: str = ""
    sequence: int = 0


class Consumed(NamedTuple):
    """A record that a consumer received."""

    partition: TopicPartition
    offset: int
    value: bytes


class ReplicaLog(NamedTuple):
    """A replica, as its broker shows it.

    Attributes:
        records: leader epoch and value of each, from offset 0 on.
    """

    broker: int
    partition: TopicPartition
    high_watermark: int
    records: Sequence[tuple[int, bytes]]


def shared_epochs(acknowledged: Iterable[Acknowledged]) -> Iterator[str]:
    """Two brokers that both acknowledged at one leader epoch."""
    brokers: dict[tuple[TopicPartition, int], int] = {}
    for one in acknowledged:
        other = brokers.setdefault((one.partition, one.leader_epoch), one.broker)
        if other != one.broker:
            yield (
                f"I9: {one.broker} and {other} both acknowledged for {one.partition}"
                f" at leader epoch {one.leader_epoch}"
            )


def unappointed(
    acknowledged: Iterable[Acknowledged], appointed: Mapping[tuple[TopicPartition, int], int]
) -> Iterator[str]:
    """Acknowledgements of brokers that did not lead at that epoch."""
    for one in acknowledged:
        leader = appointed.get((one.partition, one.leader_epoch))
        if leader != one.broker:
            yield (
                f"I9: {one.broker} acknowledged for {one.partition} at leader epoch"
                f" {one.leader_epoch}, at which {leader} led"
            )


def contradictions(seen: Iterable[Acknowledged | Consumed]) -> Iterator[str]:
    """Two values that were both committed at one offset."""
    values: dict[tuple[TopicPartition, int], bytes] = {}
    for one in seen:
        value = values.setdefault((one.partition, one.offset), one.value)
        if value != one.value:
            yield f"I9: {one.partition} has {value!r} and {one.value!r} at offset {one.offset}"


def disorder(acknowledged: Iterable[Acknowledged]) -> Iterator[str]:
    """A record that stands before another one that its producer had sent earlier."""
    by_producer: dict[tuple[str, TopicPartition], list[Acknowledged]] = defaultdict(list)
    for one in acknowledged:
        by_producer[one.producer, one.partition].append(one)
    for (producer, partition), sent in by_producer.items():
        sent.sort(key=lambda one: one.sequence)
        for before, after in pairwise(sent):
            if after.offset <= before.offset:
                yield (
                    f"I9: {producer} sent {after.value!r} after {before.value!r}, and it stands"
                    f" at offset {after.offset} of {partition}, not behind {before.offset}"
                )


def lost(
    seen: Iterable[Acknowledged | Consumed],
    logs: Iterable[ReplicaLog],
    states: Mapping[TopicPartition, LeaderAndIsr],
) -> Iterator[str]:
    """Committed records that a replica in sync does not have where they were seen."""
    found = {(log.broker, log.partition): log for log in logs}
    for one in sorted(set(seen), key=lambda one: (one.partition, one.offset)):
        state = states.get(one.partition)
        if state is None:
            yield f"I9: {one.partition} is gone, with {one.value!r}"
            continue
        for broker in state.isr:
            log = found.get((broker, one.partition))
            stands = None if log is None else _at(log, one.offset)
            if stands != one.value:
                yield (
                    f"I9: {one.value!r} was committed at offset {one.offset} of {one.partition};"
                    f" replica {broker}, in sync, has {stands!r}"
                )


def divergent(logs: Iterable[ReplicaLog]) -> Iterator[str]:
    """Replicas that differ below both their high watermarks, or whose epochs do not grow."""
    by_partition: dict[TopicPartition, list[ReplicaLog]] = defaultdict(list)
    for log in logs:
        by_partition[log.partition].append(log)
        epochs = [epoch for epoch, _ in log.records]
        if epochs != sorted(epochs):
            yield f"I9: the leader epochs of {log.partition} on {log.broker} do not grow"
        if log.high_watermark > len(log.records):
            yield (
                f"I9: {log.partition} on {log.broker} ends at {len(log.records)}, before its"
                f" high watermark {log.high_watermark}"
            )
    for partition, replicas in by_partition.items():
        yield from _differences(partition, replicas)


def unlike(
    logs: Iterable[ReplicaLog], states: Mapping[TopicPartition, LeaderAndIsr]
) -> Iterator[str]:
    """When all is calm: replicas in sync that are not their leader's like."""
    found = {(log.broker, log.partition): log.records for log in logs}
    for partition, state in states.items():
        leader = found.get((state.leader, partition))
        for broker in state.isr:
            records = found.get((broker, partition))
            if records is None or leader is None or list(records) != list(leader):
                yield f"I9: {partition} on {broker} is not as its leader {state.leader} has it"


def _differences(partition: TopicPartition, replicas: Sequence[ReplicaLog]) -> Iterator[str]:
    """Held against the one that knows of most; equality carries over."""
    longest = max(replicas, key=lambda log: log.high_watermark)
    for log in replicas:
        upto = min(log.high_watermark, longest.high_watermark)
        pairs = zip(log.records[:upto], longest.records[:upto], strict=False)
        for offset, (one, other) in enumerate(pairs):
            if tuple(one) != tuple(other):
                yield (
                    f"I9: {partition} has {one} on {log.broker} and {other} on {longest.broker}"
                    f" at offset {offset}"
                )
                break


def _at(log: ReplicaLog, offset: int) -> bytes | None:
    return log.records[offset][1] if offset < len(log.records) else None
