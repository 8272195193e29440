"""Reads the complete segments of a directory."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from broker_ctl.codec import decode_object
from broker_ctl.core.history.row_kinds import ParsedLine, parse_line


class Segment(NamedTuple):
    """One file, whole."""

    name: str
    lines: list[ParsedLine]


def segment_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.ndjson.gz"))


def segments(directory: Path) -> Iterator[Segment]:
    """All segments; a malformed one raises."""
    for path in segment_paths(directory):
        data = gzip.decompress(path.read_bytes())
        assert data.endswith(b"\n"), f"{path.name} ends in the middle of a line"
        lines = [parse_line(decode_object(line)) for line in data.splitlines()]
        yield Segment(path.name, lines)


def lines(directory: Path) -> list[ParsedLine]:
    return [line for segment in segments(directory) for line in segment.lines]


def open_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob(".*.open"))
