"""A history directory in which another user of the machine plants links and reads files."""

import gzip
import os
from pathlib import Path

import pytest

from broker_ctl.broker.history import SegmentRules, Segments
from tests.support.pipeline.history_files import open_paths, segment_paths

NONCE = "0123456789abcdef"
OPEN = f".broker-1_8080-0000000000007-{NONCE}-000001.open"
PRECIOUS = b"not a line of history"


def segments_in(directory: Path) -> Segments:
    return Segments(directory, "broker-1:8080", NONCE, SegmentRules())


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(PRECIOUS)
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "history"
    path.mkdir()
    return path


def test_segments_are_their_owners_alone_whatever_the_umask(directory: Path) -> None:
    earlier = os.umask(0)
    try:
        segments = segments_in(directory)
        segments.append([b"1\n"], 7)
        (unfinished,) = open_paths(directory)
        assert unfinished.stat().st_mode & 0o777 == 0o600
        segments.complete()
    finally:
        os.umask(earlier)
    (complete,) = segment_paths(directory)
    assert complete.stat().st_mode & 0o777 == 0o600


def test_a_link_under_the_name_of_a_new_segment_is_not_followed(
    directory: Path, victim: Path
) -> None:
    (directory / OPEN).symlink_to(victim)
    with pytest.raises(FileExistsError):
        segments_in(directory).append([b"1\n"], 7)
    assert victim.read_bytes() == PRECIOUS


def test_a_link_under_the_name_of_an_unfinished_file_is_replaced(
    directory: Path, victim: Path
) -> None:
    segments = segments_in(directory)
    segments.append([b"1\n"], 7)
    (directory / OPEN).with_suffix(".tmp").symlink_to(victim)
    segments.complete()
    assert victim.read_bytes() == PRECIOUS
    assert [gzip.decompress(path.read_bytes()) for path in segment_paths(directory)] == [b"1\n"]


def test_a_link_that_looks_like_a_segment_of_a_dead_process_is_left_alone(
    directory: Path, victim: Path
) -> None:
    (directory / OPEN).symlink_to(victim)
    segments_in(directory).recover()
    assert victim.read_bytes() == PRECIOUS
    assert segment_paths(directory) == []
