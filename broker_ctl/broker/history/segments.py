"""Segments of history on disk: whole ones compressed under a final name, one that is written to.

A writer's segments are ``WRITER-MILLIS-NONCE-NUMBER.ndjson.gz``, by the time of their beginning;
the open one is plain text and begins with a dot, as do unfinished files. A name is given in
one rename: a reader that takes ``*.ndjson.gz`` only ever sees whole segments.

The open segment is locked as long as its process lives, so that another process of the same broker
id completes what was left behind, and never what is being written. Everything here may block.
"""

import fcntl
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# No dearer level is worth its time: 6 takes twice as long as 3 for a twentieth less.
_LEVEL: Final = 3
_GZIP: Final = zlib.MAX_WBITS | 16
# Segments that are tried again after the disk would not take them.
_FULL_KEPT: Final = 4
_READ_BYTES: Final = 1 << 20
_SUFFIX: Final = ".ndjson.gz"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """Limits of one segment, and of all complete segments of a writer.

    Attributes:
        max_bytes: of lines, before they are compressed; the last line may go beyond.
        max_s: from its first line on.
        keep_bytes: of all complete segments; what is older goes.
        keep_segments: likewise.
    """

    max_bytes: int = 16 * 1024 * 1024
    max_s: float = 300.0
    keep_bytes: int = 1024 * 1024 * 1024
    keep_segments: int = 10_000


@dataclass(slots=True)
class SegmentTotals:
    """Totals of complete segments.

    Attributes:
        segments, size_bytes: number and total size in bytes on disk.
        removed: segments deleted to make room.
    """

    segments: int = 0
    size_bytes: int = 0
    removed: int = 0


class Segments:
    """Those of one writer in a directory, which others may share.

    Attributes:
        count: segments that were begun.

    Args:
        directory: where; made if it is missing.
        writer: broker id. A colon in a file's name would end Hadoop's reading of its path.
        nonce: of this process.
        rules: sizes.

    Whatever it does may raise `OSError`. No half line is left then: of the lines that were given,
    those behind the last segment that was full are lost.
    """

    def __init__(self, directory: Path, writer: str, nonce: str, rules: SegmentRules) -> None:
        self._directory = directory
        self._name = _UNSAFE.sub("_", writer)
        self._nonce = nonce
        self._rules = rules
        name = re.escape(self._name)
        self._own = re.compile(rf"{name}-\d{{13}}-[0-9a-f]+-\d{{6}}{re.escape(_SUFFIX)}")
        self._unfinished = re.compile(rf"\.{name}-\d{{13}}-[0-9a-f]+-\d{{6}}\.open")
        self._file: int | None = None
        self._path = directory
        self._size = 0
        # Full ones that the disk would not take; each is locked by its file.
        self._full: deque[tuple[Path, int]] = deque()
        self._newest_ms = 0
        self.count = 0
        self.kept = SegmentTotals()

    @property
    def is_open(self) -> bool:
        """Whether there are lines that no complete segment has."""
        return self._file is not None

    def recover(self) -> None:
        """Complete the segments that dead processes left open."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.iterdir()):
            if self._unfinished.fullmatch(path.name):
                _recover(path)
        self._enforce_limits()

    def append(self, lines: Sequence[bytes], wall_ms: int) -> None:
        """Write lines, each with its end; a segment that is full is completed on the way."""
        rest = iter(lines)
        while some := list(self._take_fitting(rest)):
            file = self._open_file(wall_ms) if self._file is None else self._file
            try:
                self._size += _write(file, b"".join(some))
            except OSError:
                # The next line must not stand behind half of one.
                os.ftruncate(file, self._size)
                raise
            if self._size >= self._rules.max_bytes:
                self.complete()

    def complete(self) -> None:
        """Give the open segment its final name, and let the oldest ones go."""
        if self._file is None:
            return
        self._full.append((self._path, self._file))
        self._file, self._size = None, 0
        while len(self._full) > _FULL_KEPT:
            path, file = self._full.popleft()
            path.unlink(missing_ok=True)
            os.close(file)
            self.kept.removed += 1
        while self._full:
            path, file = self._full[0]
            _complete(path)
            os.close(file)
            self._full.popleft()
        self._enforce_limits()

    def _take_fitting(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        size = self._size
        for line in lines:
            yield line
            size += len(line)
            if size >= self._rules.max_bytes:
                return

    def _open_file(self, wall_ms: int) -> int:
        # A clock that is set back must not mix up the order of names.
        self._newest_ms = max(self._newest_ms, wall_ms)
        self.count += 1
        name = f".{self._name}-{self._newest_ms:013d}-{self._nonce}-{self.count:06d}.open"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path = self._directory / name
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._file

    def _enforce_limits(self) -> None:
        found: list[tuple[Path, int]] = [
            (path, path.stat().st_size)
            for path in sorted(self._directory.iterdir())
            if self._own.fullmatch(path.name)
        ]
        segments, size_bytes = len(found), sum(size for _, size in found)
        for path, size in found:
            if segments <= self._rules.keep_segments and size_bytes <= self._rules.keep_bytes:
                break
            path.unlink(missing_ok=True)
            self.kept.removed += 1
            segments, size_bytes = segments - 1, size_bytes - size
        self.kept.segments, self.kept.size_bytes = segments, size_bytes


def _write(file: int, data: bytes) -> int:
    """All of it: a full disk takes some and says so at the next attempt."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    return len(data)


def _recover(path: Path) -> None:
    with path.open("rb+") as left:
        try:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        data = left.read()
        # The process may have died in the middle of a line.
        left.truncate(data.rfind(b"\n") + 1)
        _complete(path)


def _complete(path: Path) -> None:
    """Of an open segment; one without a line goes."""
    final = path.with_name(path.name.removeprefix(".").removesuffix(".open") + _SUFFIX)
    # A process that died between the last two steps has left both: the same lines take their place.
    if path.stat().st_size:
        beside = path.with_suffix(".tmp")
        _compress(path, beside)
        beside.replace(final)
    path.unlink()


def _compress(source: Path, target: Path) -> None:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    with source.open("rb") as lines, target.open("wb") as out:
        while data := lines.read(_READ_BYTES):
            out.write(packer.compress(data))
        out.write(packer.flush())
        out.flush()
        os.fsync(out.fileno())
