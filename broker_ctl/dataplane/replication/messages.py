"""Messages of simulated broker processes and their clients: JSON, one object per frame.

A follower to the leader, as often as it likes, at least every `BEAT_S`::

    {"api": "follow", "follower": ID, "topics": {NAME: TOPIC_ID},
     "named": [[TOPIC, PARTITION, LEADER_EPOCH, END_OFFSET, LAST_EPOCH]], "forgotten": [[TOPIC, P]]}

and the leader to it on the same connection, at least every `BEAT_S`::

    {"data": [[TOPIC, PARTITION, LEADER_EPOCH, HIGH_WATERMARK, START_OFFSET, [[EPOCH, VALUE]]]],
     "cuts": [[TOPIC, PARTITION, LEADER_EPOCH, AT_OFFSET, EPOCH, END_OFFSET]]}

A cut: the log that ended at ``AT_OFFSET`` is not a prefix of the leader's, which has ``EPOCH``, the
largest one up to the follower's last, up to ``END_OFFSET``.

A client, each request with a number that its answer repeats; several may be under way::

    {"api": "produce", "id": N, "topic", "partition", "leader_epoch": N or -1, "acks": "all" or "1",
     "values": [VALUE], "timeout_ms"}          -> {"offset", "leader_epoch"}
    {"api": "consume", "id": N, "topic", "partition", "leader_epoch": N or -1, "offset",
     "most"}                                   -> {"records": [[EPOCH, VALUE]], "high_watermark"}
    {"api": "held", "id": N, "after": [TOPIC, P] or null}  -> {"replicas": [HELD], "is_all"}
    {"api": "read", "id": N, "topic", "partition", "offset", "most"}  -> {"records"}

    HELD  [TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, ROLE, HIGH_WATERMARK, END_OFFSET, [ISR],
           [[EPOCH, START_OFFSET]]]

or ``{"id": N, "error": CLASS, "reason": TEXT}``; ``DataPlaneUnreachable`` says that it is not known
whether the records are committed. ``held`` and ``read`` return all records, committed or not: they
are for checks. A VALUE is a text of the characters 0 to 255, each of which is a byte.

Without TLS there is no authentication, and the port is one of loopback. With it, a follower needs
the certificate of its own number; see `tls`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.log import Record

# A peer that is silent for several beats is considered gone.
BEAT_S: Final = 1.0
SILENCE_S: Final = 5 * BEAT_S
# Bounds of one frame: partitions that it names, records of each, and bytes of values, which the
# last record may exceed by as many again. As JSON a byte takes up to six.
MAX_PARTITIONS: Final = 2_000
MAX_RECORDS: Final = 1_000
MAX_VALUES_BYTES: Final = 1 << 19
# Matches any leader epoch.
ANY_EPOCH: Final = -1

FOLLOW: Final = "follow"
PRODUCE: Final = "produce"
CONSUME: Final = "consume"
HELD: Final = "held"
READ: Final = "read"

ACKS_ALL: Final = "all"
ACKS_LEADER: Final = "1"


class HeldLog(NamedTuple):
    """A replica as its broker process shows it, for checks.

    Attributes:
        role: ``leader``, ``follower``, ``none`` or ``failed``.
        isr: as its leader knows it; empty elsewhere.
        epoch_starts: each leader epoch that has records, and the offset of its first one.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    role: str
    high_watermark: int
    end_offset: int
    isr: tuple[int, ...]
    epoch_starts: tuple[tuple[int, int], ...]


def record_rows(records: Iterable[Record]) -> list[list[Any]]:
    """Rows of records in a frame."""
    return [[epoch, value.decode("latin-1")] for epoch, value in records]


def records_of(rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The way back.

    Raises:
        ValueError: they do not fit.
    """
    return [Record(int(epoch), str(text).encode("latin-1")) for epoch, text in rows]


def held_row(held: HeldLog) -> list[Any]:
    """Row of a replica in a frame."""
    return [*held.partition, *held[1:]]


def held_of(row: Sequence[Any]) -> HeldLog:
    """The way back.

    Raises:
        ValueError: it does not fit.
    """
    topic, partition, topic_id, leader_epoch, role, watermark, end, isr, starts = row
    return HeldLog(
        TopicPartition(topic, partition),
        topic_id,
        leader_epoch,
        role,
        watermark,
        end,
        tuple(isr),
        tuple((epoch, start) for epoch, start in starts),
    )
