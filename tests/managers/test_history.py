import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.codec import decode_object
from broker_ctl.core.decisions import Reason, Skip
from broker_ctl.managers.history import HistoryWriter, SegmentRules
from broker_ctl.managers.journal import DecisionJournal
from broker_ctl.ports import JournalEntry, Outcome
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually


def writer(directory: Path, **rules: int) -> HistoryWriter:
    return HistoryWriter(directory, "decisions", ManualClock(), rules=SegmentRules(**rules))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("decisions-*.ndjson"))


def rows(directory: Path) -> list[int]:
    lines = [line for path in segments(directory) for line in path.read_bytes().splitlines()]
    return [decode_object(line)["n"] for line in lines]


async def test_rows_come_out_in_order_when_the_writer_is_closed(tmp_path: Path) -> None:
    history = writer(tmp_path / "made" / "here")
    await history.start()
    for n in range(1200):
        history.add({"n": n})
    await history.close()
    assert rows(tmp_path / "made" / "here") == list(range(1200))
    assert (history.written, history.dropped) == (1200, 0)


async def test_a_full_segment_is_completed_and_the_oldest_are_removed(tmp_path: Path) -> None:
    history = writer(tmp_path, max_bytes=50, max_segments=3)
    await history.start()
    for n in range(10):
        history.add({"n": n, "filling": "x" * 60})
        await eventually(lambda n=n: history.written == n + 1)  # type: ignore[misc]
    await history.close()
    assert rows(tmp_path) == [7, 8, 9]
    assert not (tmp_path / "decisions.open").exists()


async def test_half_a_row_of_a_process_that_died_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "decisions.open").write_bytes(b'{"n":1}\n{"n":2}\n{"n":')
    history = writer(tmp_path)
    await history.start()
    assert rows(tmp_path) == [1, 2]
    history.add({"n": 3})
    await history.close()
    assert rows(tmp_path) == [1, 2, 3]


async def test_what_cannot_be_written_is_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = writer(tmp_path / "file")
    await history.start()
    history.add({"n": 1})
    history.add({"n": 2})
    await history.close()
    assert (history.written, history.dropped) == (0, 2)


async def test_a_slow_disk_holds_up_nobody_and_the_queue_is_bounded(tmp_path: Path) -> None:
    is_free = asyncio.Event()

    async def slow(work: Callable[[], None]) -> None:
        await is_free.wait()
        work()

    is_free.set()
    history = HistoryWriter(tmp_path, "decisions", ManualClock(), offload=slow)
    await history.start()
    is_free.clear()
    for n in range(12_000):
        history.add({"n": n})
    assert history.dropped >= 1_000
    is_free.set()
    await history.close()
    assert history.written + history.dropped == 12_000


async def test_a_journal_writes_its_rows(tmp_path: Path) -> None:
    history = writer(tmp_path)
    await history.start()
    journal = DecisionJournal(history)
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "why")
    for cycle in range(3):
        journal.record(JournalEntry(1, 2, cycle, skip, Outcome("skipped"), {"imbalance": 1.5}))
    await history.close()
    (path,) = segments(tmp_path)
    read = [decode_object(line) for line in path.read_bytes().splitlines()]
    assert [row["cycle"] for row in read] == [0, 1, 2]
    assert read[0]["decision"]["reason"] == "below_threshold"
    assert read[0]["imbalance"] == 1.5
    assert journal.dropped == 0


@pytest.mark.parametrize("text", [b"", b'{"n":'])
async def test_an_open_segment_without_a_whole_row_is_no_trouble(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "decisions.open").write_bytes(text)
    history = writer(tmp_path)
    await history.start()
    await history.close()
    assert rows(tmp_path) == []
