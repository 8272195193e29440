import asyncio
from collections.abc import Callable
from pathlib import Path

from broker_ctl.balancer.context.decisions import DecisionLog
from broker_ctl.broker.history import History, HistoryAuthor, SegmentRules
from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.history.row_kinds import (
    OWNERSHIP_CHANGES,
    PARTITION_TRANSITIONS,
    SESSION_EVENTS,
    ParsedLine,
)
from broker_ctl.core.history.rows import (
    JournalEntry,
    Outcome,
    OwnershipChangeRow,
    PartitionTransitionRow,
    SessionEventRow,
)
from broker_ctl.lab.time import ManualClock
from tests.support.pipeline.history_files import lines, open_paths, segment_paths
from tests.support.time.waiting import eventually

AUTHOR = HistoryAuthor("europe", "broker-1:8080", "0123456789abcdef0123456789abcdef")
EVENT = SessionEventRow("begin", "connected", 1)


def history_in(
    directory: Path, clock: ManualClock | None = None, max_queued_bytes: int = 1 << 20
) -> History:
    rules = SegmentRules(max_s=60.0)
    return History(
        directory,
        AUTHOR,
        clock or ManualClock(),
        rules=rules,
        max_queued_bytes=max_queued_bytes,
    )


def change(number: int) -> OwnershipChangeRow:
    return OwnershipChangeRow(
        f"a/b/{number}", is_acquired=True, cause="split", token=7, session_epoch=1
    )


def transition(number: int) -> PartitionTransitionRow:
    return PartitionTransitionRow("orders", number, "online", "offline", -1, 4, (1, 2), "dead")


def bundles_of(found: list[ParsedLine]) -> list[str]:
    return [row.bundle for line in found for row in line.rows]


async def test_rows_of_all_kinds_come_out_in_order_with_stamps(tmp_path: Path) -> None:
    history = history_in(tmp_path / "made" / "here")
    await history.start()
    history.record_rows(SESSION_EVENTS, [EVENT])
    history.record_rows(OWNERSHIP_CHANGES, [change(1), change(2)], at_ms=5)
    history.record_rows(PARTITION_TRANSITIONS, [transition(9)], epoch=3, cycle=4, at_ms=6)
    await history.close()
    found = lines(tmp_path / "made" / "here")
    assert [line.rows for line in found] == [(EVENT,), (change(1),), (change(2),), (transition(9),)]
    assert tuple(found[3].stamp) == (
        *("partition_transitions", 1, "0123456789abcdef-4", "europe", "broker-1:8080"),
        *(6, 3, 4),
    )
    assert found[0].stamp.at_ms == 1_000_000
    assert (history.written, history.dropped, history.queued_bytes) == (4, 0, 0)


async def test_a_line_of_a_packed_kind_has_a_few_hundred_rows(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    await history.start()
    history.record_rows(PARTITION_TRANSITIONS, [transition(n) for n in range(600)])
    await history.close()
    found = lines(tmp_path)
    assert [len(line.rows) for line in found] == [256, 256, 88]
    assert [row.partition for line in found for row in line.rows] == list(range(600))
    assert len({line.stamp.id for line in found}) == 3


async def test_a_segment_is_completed_when_it_is_old_though_nothing_comes(tmp_path: Path) -> None:
    clock = ManualClock()
    history = history_in(tmp_path, clock)
    await history.start()
    history.record_rows(OWNERSHIP_CHANGES, [change(1)])
    await eventually(lambda: history.written == 1)
    assert (len(open_paths(tmp_path)), segment_paths(tmp_path)) == (1, [])
    clock.time_s += 60.0
    history.record_rows(OWNERSHIP_CHANGES, [change(2)])
    await eventually(lambda: history.segments == 1)
    assert bundles_of(lines(tmp_path)) == ["a/b/1", "a/b/2"]
    await history.close()
    assert history.written == 2


async def test_a_timer_completes_a_segment_that_is_old(tmp_path: Path) -> None:
    clock = ManualClock()
    rules = SegmentRules(max_s=0.05)
    history = History(tmp_path, AUTHOR, clock, rules=rules)
    await history.start()
    history.record_rows(OWNERSHIP_CHANGES, [change(1)])
    await eventually(lambda: history.written == 1)
    clock.time_s += 1.0
    await eventually(lambda: segment_paths(tmp_path))
    await history.close()


async def test_rows_that_cannot_be_written_are_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = history_in(tmp_path / "file")
    await history.start()
    history.record_rows(OWNERSHIP_CHANGES, [change(1), change(2)])
    await history.close()
    assert (history.written, history.dropped) == (0, 2)


async def test_rows_after_close_are_dropped_and_counted(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    await history.start()
    await history.close()
    history.record_rows(OWNERSHIP_CHANGES, [change(1)])
    assert (history.written, history.dropped, lines(tmp_path)) == (0, 1, [])


async def test_a_slow_disk_delays_no_caller_and_the_queue_is_bounded(tmp_path: Path) -> None:
    is_free = asyncio.Event()
    turns = 0

    async def slow(work: Callable[[], None]) -> None:
        await is_free.wait()
        work()

    async def turn() -> None:
        nonlocal turns
        while not is_free.is_set():
            turns += 1
            await asyncio.sleep(0)

    is_free.set()
    history = History(tmp_path, AUTHOR, ManualClock(), offload=slow, max_queued_bytes=20_000)
    await history.start()
    is_free.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(turn(), name="others")
        for number in range(1000):
            history.record_rows(OWNERSHIP_CHANGES, [change(number)])
            await asyncio.sleep(0)
        assert history.queued_bytes <= 20_000
        assert history.dropped > 0
        # Nobody waited for the disk: others had a turn with each row.
        assert turns >= 990
        is_free.set()
    await history.close()
    assert history.written + history.dropped == 1000
    assert len(bundles_of(lines(tmp_path))) == history.written


async def test_a_row_that_is_lost_leaves_the_others_whole(tmp_path: Path) -> None:
    is_broken = False

    async def offload(work: Callable[[], None]) -> None:
        if is_broken:
            raise OSError(28, "no space left")
        work()

    history = History(tmp_path, AUTHOR, ManualClock(), offload=offload)
    await history.start()
    for number in range(3):
        is_broken = number == 1
        history.record_rows(OWNERSHIP_CHANGES, [change(number)])
        await eventually(lambda n=number: history.written + history.dropped == n + 1)  # type: ignore[misc]
    await history.close()
    assert bundles_of(lines(tmp_path)) == ["a/b/0", "a/b/2"]
    assert (history.written, history.dropped) == (2, 1)


async def test_a_row_that_json_cannot_encode_is_dropped_alone(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    await history.start()
    broken = change(2)._replace(cause="\ud800")
    history.record_rows(OWNERSHIP_CHANGES, [change(1), broken, change(3)])
    await history.close()
    assert bundles_of(lines(tmp_path)) == ["a/b/1", "a/b/3"]
    assert (history.written, history.dropped) == (2, 1)


async def test_a_journal_writes_its_rows(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    await history.start()
    journal = DecisionLog(history)
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "why")
    for cycle in range(3):
        journal.record(JournalEntry(1, 2, cycle, skip, Outcome("skipped")))
    await history.close()
    found = lines(tmp_path)
    assert [(line.stamp.at_ms, line.stamp.epoch, line.stamp.cycle) for line in found] == [
        (1, 2, 0),
        (1, 2, 1),
        (1, 2, 2),
    ]
    (row,) = found[0].rows
    assert (row.decision, row.reason, row.subject) == ("skip", "below_threshold", "cluster")
    assert (row.result, row.bundle) == ("skipped", None)
