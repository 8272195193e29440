"""Each way to lose a committed record, or to have two logs that differ, is found."""

from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from tests.support.replicas.replica_logs import (
    Acknowledged,
    Consumed,
    ReplicaLog,
    contradictions,
    disorder,
    divergent,
    lost,
    shared_epochs,
    unappointed,
    unlike,
)

PARTITION = TopicPartition("t", 0)
STATES = {PARTITION: LeaderAndIsr(1, 2, (1, 2), 1)}


def acknowledged(offset: int, value: bytes, leader_epoch: int = 0, broker: int = 1) -> Acknowledged:
    return Acknowledged(PARTITION, offset, value, leader_epoch, broker, "p", offset)


def log(broker: int, *values: bytes, high_watermark: int | None = None) -> ReplicaLog:
    upto = len(values) if high_watermark is None else high_watermark
    return ReplicaLog(broker, PARTITION, upto, [(0, value) for value in values])


ACKNOWLEDGED = [acknowledged(0, b"a"), acknowledged(1, b"b"), acknowledged(2, b"c", 2)]
LOGS = [log(1, b"a", b"b", b"c"), log(2, b"a", b"b", b"c", high_watermark=2)]


def test_a_partition_without_fault() -> None:
    behind = log(3, b"a", b"x", high_watermark=1)
    seen: list[Acknowledged | Consumed] = [*ACKNOWLEDGED, Consumed(PARTITION, 0, b"a")]
    assert list(shared_epochs(ACKNOWLEDGED)) == []
    assert list(unappointed(ACKNOWLEDGED, {(PARTITION, 0): 1, (PARTITION, 2): 1})) == []
    assert list(contradictions(seen)) == []
    assert list(disorder(ACKNOWLEDGED)) == []
    assert list(lost(seen, [*LOGS, behind], STATES)) == []
    assert list(divergent([*LOGS, behind])) == []
    assert list(unlike([*LOGS, behind], STATES)) == []


def test_two_brokers_that_acknowledge_at_one_leader_epoch_are_found() -> None:
    (said,) = shared_epochs(
        [acknowledged(0, b"a"), acknowledged(1, b"b", broker=2), acknowledged(2, b"c", 1, broker=3)]
    )
    assert "2 and 1 both acknowledged" in said


def test_a_broker_that_acknowledges_without_being_appointed_is_found() -> None:
    (said,) = unappointed([acknowledged(0, b"a", 1, broker=2)], {(PARTITION, 1): 3})
    assert "2 acknowledged for t-0 at leader epoch 1, at which 3 led" in said
    (said,) = unappointed([acknowledged(0, b"a", 1, broker=2)], {})
    assert "None led" in said


def test_two_values_at_one_offset_are_found_also_where_one_was_only_read() -> None:
    (said,) = contradictions([acknowledged(1, b"a"), acknowledged(1, b"b", 1, broker=2)])
    assert "b'a' and b'b' at offset 1" in said
    assert len(list(contradictions([acknowledged(1, b"a"), Consumed(PARTITION, 1, b"b")]))) == 1


def test_a_producers_records_stand_in_the_order_in_which_it_sent_them() -> None:
    first, second = acknowledged(5, b"a"), acknowledged(4, b"b")._replace(sequence=6)
    (said,) = disorder([second, first])
    assert "b'b' after b'a'" in said
    assert list(disorder([first, second._replace(producer="q")])) == []


def test_a_committed_record_that_a_replica_in_sync_does_not_have_is_found() -> None:
    short = [LOGS[0], log(2, b"a", b"b")]
    (said,) = lost(ACKNOWLEDGED, short, STATES)
    assert "replica 2, in sync, has None" in said
    (said,) = lost([Consumed(PARTITION, 2, b"c")], short, STATES)
    assert "b'c' was committed at offset 2" in said
    assert len(list(lost(ACKNOWLEDGED, [LOGS[0], log(2, b"a", b"x", b"c")], STATES))) == 1
    assert len(list(lost(ACKNOWLEDGED, LOGS[:1], STATES))) == 3
    assert len(list(lost(ACKNOWLEDGED, LOGS, {}))) == 3


def test_logs_that_differ_below_the_high_watermark_are_found() -> None:
    (said,) = divergent([log(1, b"a", b"b", b"c"), log(2, b"a", b"x", b"c")])
    assert "at offset 1" in said
    newer = ReplicaLog(2, PARTITION, 2, [(0, b"a"), (1, b"b")])
    assert len(list(divergent([log(1, b"a", b"b"), newer]))) == 1
    assert list(divergent([log(1, b"a", b"b"), log(2, b"a", b"x", high_watermark=1)])) == []


def test_a_log_whose_epochs_fall_or_that_ends_too_early_is_found() -> None:
    (said,) = divergent([ReplicaLog(1, PARTITION, 2, [(1, b"a"), (0, b"b")])])
    assert "do not grow" in said
    (said,) = divergent([log(1, b"a", high_watermark=2)])
    assert "before its high watermark 2" in said


def test_replicas_in_sync_that_differ_when_all_is_calm_are_found() -> None:
    (said,) = unlike([log(1, b"a", b"b"), log(2, b"a")], STATES)
    assert "t-0 on 2" in said
    assert len(list(unlike([log(2, b"a")], STATES))) == 2
