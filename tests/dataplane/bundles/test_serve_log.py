"""Serve logs: bounds, torn lines, order."""

from pathlib import Path

import pytest

from broker_ctl.dataplane.bundles.serve_log import FileServeLog, ServeEvent, merge_logs, read_events
from broker_ctl.errors import CorruptRecord
from broker_ctl.lab.simulated import MemoryServeLog

ACTS = [ServeEvent(t_ns, "b1:8080", 1 << 40, (1, 0xFFFFFFFF)) for t_ns in (10, 20, 30)]


def written(path: Path, acts: list[ServeEvent], max_bytes: int = 1 << 20) -> FileServeLog:
    log = FileServeLog(path, max_bytes)
    for act in acts:
        log.record(act)
    log.close()
    return log


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written(tmp_path / "acts", ACTS)
    assert list(read_events(tmp_path / "acts")) == ACTS
    line = (tmp_path / "acts").read_text().splitlines()[0]
    assert line == '{"t":10,"broker":"b1:8080","token":1099511627776,"hashes":[1,4294967295]}'


def test_each_act_is_in_the_file_before_the_next(tmp_path: Path) -> None:
    log = FileServeLog(tmp_path / "acts", 1 << 20)
    for count, act in enumerate(ACTS, 1):
        log.record(act)
        assert len(list(read_events(tmp_path / "acts"))) == count
    log.close()


def test_a_full_log_stops_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "acts"
    line_bytes = len(b'{"t":10,"broker":"b1:8080","token":1099511627776,"hashes":[1,4294967295]}\n')
    log = written(path, ACTS * 2, max_bytes=2 * line_bytes + 5)
    assert list(read_events(path)) == ACTS[:2]
    assert log.dropped == 4
    assert path.stat().st_size <= 2 * line_bytes + 5


def test_a_log_with_a_gap_takes_nothing_any_more(tmp_path: Path) -> None:
    """A small act would still fit, but a hole would make the judge accuse the innocent."""
    long = ServeEvent(15, "b1:8080", 1, tuple(range(100)))
    log = written(tmp_path / "acts", [ACTS[0], long, ACTS[1]], max_bytes=200)
    assert list(read_events(tmp_path / "acts")) == ACTS[:1]
    assert log.dropped == 2


def test_the_bound_holds_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "acts"
    written(path, ACTS[:1])
    size = path.stat().st_size
    assert written(path, ACTS[1:], max_bytes=2 * size).dropped == 1
    assert list(read_events(path)) == ACTS[:2]


def test_a_disk_that_refuses_is_counted_and_not_raised(tmp_path: Path) -> None:
    assert written(tmp_path / "no" / "such" / "folder", ACTS).dropped == 3


@pytest.mark.parametrize("torn", [b"{", b'{"t":40,"broker":"b', b"x" * 200_000])
def test_a_torn_last_line_is_left_out_and_removed_at_the_next_start(
    tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "acts"
    written(path, ACTS[:2])
    with path.open("ab") as file:
        file.write(torn)
    assert list(read_events(path)) == ACTS[:2]
    written(path, ACTS[2:])
    assert list(read_events(path)) == ACTS


def test_a_file_of_one_torn_line_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "acts"
    path.write_bytes(b'{"t":1')
    assert list(read_events(path)) == []
    written(path, ACTS)
    assert list(read_events(path)) == ACTS


@pytest.mark.parametrize(
    "bad", ["nonsense", "[]", '{"t":40}', '{"t":5,"broker":"b","token":1,"hashes":[]}']
)
def test_a_malformed_line_in_the_middle_is_named(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "acts"
    written(path, ACTS[:1])
    with path.open("a") as file:
        file.write(f"{bad}\n")
    written(path, ACTS[1:])
    with pytest.raises(CorruptRecord, match=r"acts:2: "):
        list(read_events(path))


def test_memory_keeps_the_newest() -> None:
    log = MemoryServeLog(2)
    for act in ACTS:
        log.record(act)
    log.close()
    assert list(log.events) == ACTS[1:]


def test_logs_are_merged_in_order_of_time() -> None:
    others = [ServeEvent(t_ns, "b2:8080", 1, ()) for t_ns in (5, 25)]
    assert [act.t_ns for act in merge_logs([ACTS, others])] == [5, 10, 20, 25, 30]
