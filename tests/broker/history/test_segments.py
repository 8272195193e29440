import fcntl
import gzip
import os
import resource
from pathlib import Path

import pytest

from broker_ctl.broker.history import SegmentRules, Segments
from tests.support.pipeline.history_files import open_paths, segment_paths

NONCE = "0123456789abcdef"
LEFT = f".broker-1_8080-0000000000005-{NONCE}-000001.open"


def segments_in(directory: Path, **rules: int) -> Segments:
    return Segments(directory, "broker-1:8080", "fedcba9876543210", SegmentRules(**rules))


def texts(directory: Path) -> list[bytes]:
    return [gzip.decompress(path.read_bytes()) for path in segment_paths(directory)]


def test_a_full_segment_gets_its_name_and_a_new_one_is_begun(tmp_path: Path) -> None:
    segments = segments_in(tmp_path, max_bytes=4)
    segments.append([b"a\n", b"b\n", b"c\n", b"dddddddd\n", b"e\n"], 7)
    assert texts(tmp_path) == [b"a\nb\n", b"c\ndddddddd\n"]
    assert [path.read_bytes() for path in open_paths(tmp_path)] == [b"e\n"]
    segments.complete()
    assert texts(tmp_path)[2] == b"e\n"
    assert (open_paths(tmp_path), segments.is_open) == ([], False)
    assert segment_paths(tmp_path)[0].name == (
        "broker-1_8080-0000000000007-fedcba9876543210-000001.ndjson.gz"
    )


def test_names_are_in_order_though_the_clock_is_set_back(tmp_path: Path) -> None:
    segments = segments_in(tmp_path, max_bytes=2)
    for number, wall_ms in enumerate([100, 50, 200]):
        segments.append([b"%d\n" % number], wall_ms)
    assert texts(tmp_path) == [b"0\n", b"1\n", b"2\n"]


@pytest.mark.parametrize(
    ("left", "whole"),
    [
        (b"1\n2\n3", [b"1\n2\n"]),
        (b"1\n2\n", [b"1\n2\n"]),
        (b"1", []),
        (b"", []),
    ],
)
def test_a_segment_of_a_dead_process_is_completed_without_its_half_line(
    tmp_path: Path, left: bytes, whole: list[bytes]
) -> None:
    (tmp_path / LEFT).write_bytes(left)
    segments_in(tmp_path).recover()
    assert (texts(tmp_path), open_paths(tmp_path)) == (whole, [])


def test_a_segment_that_was_completed_before_its_process_died_is_not_kept_twice(
    tmp_path: Path,
) -> None:
    segments = segments_in(tmp_path, max_bytes=2)
    segments.append([b"1\n"], 5)
    (final,) = segment_paths(tmp_path)
    left = tmp_path / f".{final.name.removesuffix('.ndjson.gz')}.open"
    left.write_bytes(b"1\n")
    segments_in(tmp_path).recover()
    assert (texts(tmp_path), open_paths(tmp_path)) == ([b"1\n"], [])


def test_files_of_other_brokers_and_processes_are_left_alone(tmp_path: Path) -> None:
    ours = segments_in(tmp_path)
    ours.append([b"1\n"], 5)
    (tmp_path / LEFT.replace("broker-1", "broker-2")).write_bytes(b"2\n")
    (tmp_path / ".broker-1_8080-notes.open").write_bytes(b"3\n")
    # Another process of the same broker id, while the first one still lives.
    segments_in(tmp_path).recover()
    assert (texts(tmp_path), len(open_paths(tmp_path))) == ([], 3)
    ours.append([b"4\n"], 6)
    ours.complete()
    assert texts(tmp_path) == [b"1\n4\n"]


def test_the_lock_ends_with_its_process_and_not_before(tmp_path: Path) -> None:
    (tmp_path / LEFT).write_bytes(b"1\n")
    file = os.open(tmp_path / LEFT, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    segments_in(tmp_path).recover()
    assert texts(tmp_path) == []
    os.close(file)
    segments_in(tmp_path).recover()
    assert texts(tmp_path) == [b"1\n"]


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    other = tmp_path / f"broker-1_8080-x-0000000000001-{NONCE}-000001.ndjson.gz"
    other.write_bytes(gzip.compress(b"other\n"))
    segments = segments_in(tmp_path, max_bytes=2, keep_segments=2)
    for number in range(5):
        segments.append([b"%d\n" % number], 10 + number)
    assert texts(tmp_path) == [b"3\n", b"4\n", b"other\n"]
    assert (segments.kept.segments, segments.kept.removed) == (2, 3)


def test_the_oldest_go_when_they_take_too_much(tmp_path: Path) -> None:
    segments = segments_in(tmp_path, max_bytes=2, keep_bytes=100)
    for number in range(10):
        segments.append([b"%d\n" % number], 10 + number)
    kept = segment_paths(tmp_path)
    assert sum(path.stat().st_size for path in kept) <= 100
    assert segments.kept.size_bytes == sum(path.stat().st_size for path in kept)
    assert len(kept) + segments.kept.removed == 10
    assert texts(tmp_path)[-1] == b"9\n"
    # A later process keeps to it, too.
    segments_in(tmp_path, keep_bytes=1).recover()
    assert segment_paths(tmp_path) == []


def test_a_segment_that_the_disk_refused_is_completed_later(tmp_path: Path) -> None:
    segments = segments_in(tmp_path)
    segments.append([b"1\n"], 5)
    # The name of what is half done is taken: compressing cannot begin.
    obstacle = open_paths(tmp_path)[0].with_suffix(".tmp")
    obstacle.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        segments.complete()
    assert (texts(tmp_path), len(open_paths(tmp_path))) == ([], 1)
    segments.append([b"2\n"], 6)
    obstacle.rmdir()
    segments.complete()
    assert texts(tmp_path) == [b"1\n", b"2\n"]
    assert open_paths(tmp_path) == []


def test_half_a_line_that_the_disk_has_taken_is_taken_back(tmp_path: Path) -> None:
    segments = segments_in(tmp_path)
    segments.append([b"1\n"], 5)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, before[1]))
    try:
        # The file may grow to six bytes, which is in the middle of the second line.
        with pytest.raises(OSError, match="File too large"):
            segments.append([b"2\n", b"3333\n"], 5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert open_paths(tmp_path)[0].read_bytes() == b"1\n"
    segments.append([b"4\n"], 5)
    segments.complete()
    assert texts(tmp_path) == [b"1\n4\n"]


def test_segments_that_the_disk_goes_on_refusing_are_bounded(tmp_path: Path) -> None:
    segments = segments_in(tmp_path)
    for number in range(8):
        segments.append([b"%d\n" % number], number)
        newest = open_paths(tmp_path)[-1]
        newest.with_suffix(".tmp").mkdir()
        with pytest.raises(OSError, match="Is a directory"):
            segments.complete()
    assert len(open_paths(tmp_path)) == 4
    assert segments.kept.removed == 4
