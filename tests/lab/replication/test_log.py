"""A replica's log, and what a follower does with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.lab.replication.log import NO_EPOCH, EpochEnd, FollowerState, LogRecord, ReplicaLog

EPOCHS = st.lists(st.integers(0, 5), max_size=12).map(sorted)


def log_of(*epochs: int) -> ReplicaLog:
    return ReplicaLog(LogRecord(epoch, b"%d" % offset) for offset, epoch in enumerate(epochs))


def test_records_get_offsets_and_epochs_their_starts() -> None:
    log = log_of(0, 0, 2, 5)
    assert log.end_offset == 4
    assert log.last_epoch == 5
    assert log.epoch_starts == [(0, 0), (2, 2), (5, 3)]
    assert log.read(1, 3) == [LogRecord(0, b"1"), LogRecord(2, b"2")]
    assert log.read(4, 9) == []


def test_an_empty_log_has_no_epoch() -> None:
    log = ReplicaLog()
    assert (log.end_offset, log.last_epoch, log.epoch_starts) == (0, NO_EPOCH, [])
    assert log.epoch_end(3) == EpochEnd(NO_EPOCH, 0)


def test_epochs_never_descend() -> None:
    log = log_of(0, 2)
    with pytest.raises(ValueError, match="epoch 1 after 2 at 2"):
        log.append([LogRecord(1, b"x")])
    assert log.end_offset == 2


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (NO_EPOCH, 0)),
        (0, (0, 2)),
        (1, (0, 2)),
        (2, (2, 3)),
        (4, (2, 3)),
        (5, (5, 4)),
        (9, (5, 4)),
    ],
)
def test_the_end_of_an_epoch_or_of_the_one_below(asked: int, answer: tuple[int, int]) -> None:
    assert log_of(0, 0, 2, 5).epoch_end(asked) == answer


def test_logs_agree_where_the_last_epochs_do() -> None:
    leader = log_of(0, 0, 2)
    assert leader.agrees(0, NO_EPOCH)
    assert leader.agrees(2, 0)
    assert leader.agrees(3, 2)
    assert not leader.agrees(3, 0)
    assert not leader.agrees(4, 2)


def test_a_cut_takes_records_epochs_and_the_high_watermark() -> None:
    log = log_of(0, 0, 2, 5)
    log.high_watermark = 3
    log.truncate(2)
    assert (log.end_offset, log.epoch_starts, log.high_watermark) == (2, [(0, 0)], 2)
    log.append([LogRecord(7, b"new")])
    assert log.epoch_starts == [(0, 0), (7, 2)]
    log.truncate(0)
    assert (log.end_offset, log.epoch_starts, log.high_watermark) == (0, [], 0)


@given(EPOCHS, EPOCHS, st.integers(0, 12))
def test_a_follower_cuts_off_what_the_leader_never_had(
    ours: list[int], theirs: list[int], shared: int
) -> None:
    """Nothing else, and after a few rounds its log is a beginning of the leader's."""
    start = ours[:shared]
    floor = max(start, default=0)
    # An epoch has one leader: what both appended after the common start has other epochs.
    leader = ReplicaLog(
        [LogRecord(e, b"s") for e in start]
        + [LogRecord(2 * e + 10, b"l") for e in theirs if e >= floor]
    )
    follower = ReplicaLog(
        [LogRecord(e, b"s") for e in start]
        + [LogRecord(2 * e + 11, b"f") for e in ours[shared:] if e >= floor]
    )
    for _ in range(len(ours) + 1):
        if leader.agrees(follower.end_offset, follower.last_epoch):
            break
        follower.truncate(follower.cut_for(leader.epoch_end(follower.last_epoch)))
    assert follower.end_offset == len(start)
    assert leader.read(0, len(start)) == follower.read(0, len(start))


def test_records_that_were_meant_for_another_log_are_left() -> None:
    log, news = log_of(0, 0), [LogRecord(1, b"n")]
    following = FollowerState(leader=1, leader_epoch=3)
    assert following.news_in(log, 3, 2, news) == news
    assert following.news_in(log, 2, 2, news) == ()
    assert following.news_in(log, 4, 2, news) == ()
    assert following.news_in(log, 3, 1, news) == ()
    with pytest.raises(ValueError, match="descend at offset 2"):
        following.news_in(log, 3, 2, [LogRecord(2, b""), LogRecord(1, b"")])


def test_a_cut_that_was_meant_for_another_log_is_left() -> None:
    log = log_of(0, 0, 2)
    following = FollowerState(leader=1, leader_epoch=3)
    assert following.cut_in(log, 3, 3, EpochEnd(0, 1)) == 1
    assert following.cut_in(log, 2, 3, EpochEnd(0, 1)) == 3
    assert following.cut_in(log, 3, 2, EpochEnd(0, 1)) == 3
