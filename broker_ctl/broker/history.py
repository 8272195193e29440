"""History on disk: segments of lines, and their writer."""

import asyncio
import errno
import fcntl
import logging
import os
import re
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.core.history.columns import RowKind, RowT
from broker_ctl.core.history.cycle_rows import ROWS_A_LINE
from broker_ctl.core.history.row_kinds import Stamp, line_of, packed_line_of
from broker_ctl.core.model.counting import batched
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Segments of history on disk: complete, compressed ones, and an open one for new lines.
#
# A complete segment is named ``WRITER-MILLIS-NONCE-NUMBER.ndjson.gz`` by the time of its start.
# The open one is plain text; its name begins with a dot, as do those of unfinished files. A
# segment gets its final name in one rename: a reader of ``*.ndjson.gz`` only sees complete
# segments.
#
# The open segment is locked while its process lives. Another process of the same broker id
# completes segments that were left behind, and never one that is in use. All functions here may
# block.


# Higher levels are not worth their time: 6 takes twice as long as 3 and saves a twentieth.
_LEVEL: Final = 3
_GZIP: Final = zlib.MAX_WBITS | 16
# Number of full segments kept for a retry after the disk refused them.
_FULL_KEPT: Final = 4
_READ_BYTES: Final = 1 << 20
_SUFFIX: Final = ".ndjson.gz"
# A shared directory may hold links that another user made.
_SAFELY: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
_MODE: Final = 0o600
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """Limits of one segment, and of all complete segments of a writer.

    Attributes:
        max_bytes: size before compression; the last line may exceed it.
        max_s: age, counted from the first line.
        keep_bytes: size of all complete segments; the oldest are deleted beyond it.
        keep_segments: number of complete segments, likewise.
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
    """Segments of one writer; its directory may hold those of other writers.

    Attributes:
        count: number of segments started.

    Args:
        directory: created if it does not exist.
        writer: broker id, without colons: Hadoop cannot read paths that contain one.
        nonce: of this process.
        rules: limits of the segments.

    All methods may raise `OSError`. They leave no partial line then: given lines after the last
    full segment are lost.
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
        # Full segments that the disk refused; each file is locked.
        self._full: deque[tuple[Path, int]] = deque()
        self._newest_ms = 0
        self.count = 0
        self.kept = SegmentTotals()

    @property
    def is_open(self) -> bool:
        """Whether there are lines that are not in a complete segment."""
        return self._file is not None

    def recover(self) -> None:
        """Complete the segments that dead processes left open."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.iterdir()):
            if self._unfinished.fullmatch(path.name):
                _recover(path)
        self._enforce_limits()

    def append(self, lines: Sequence[bytes], wall_ms: int) -> None:
        """Write lines, each with its newline; a segment that becomes full is completed."""
        rest = iter(lines)
        while some := list(self._take_fitting(rest)):
            file = self._open_file(wall_ms) if self._file is None else self._file
            try:
                self._size += _write(file, b"".join(some))
            except OSError:
                # The next line must not follow a partial one.
                os.ftruncate(file, self._size)
                raise
            if self._size >= self._rules.max_bytes:
                self.complete()

    def complete(self) -> None:
        """Complete the open segment, and delete the oldest ones beyond the limits."""
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
        # Names must keep their order even if the clock is set back.
        self._newest_ms = max(self._newest_ms, wall_ms)
        self.count += 1
        name = f".{self._name}-{self._newest_ms:013d}-{self._nonce}-{self.count:06d}.open"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path = self._directory / name
        self._file = os.open(self._path, _CREATE | os.O_APPEND, _MODE)
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
    """Write all bytes: a full disk accepts a part, and raises at the next attempt."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    return len(data)


def _recover(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDWR | _SAFELY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            log.warning("%s is a link, not a segment of history: it stays as it is", path)
            return
        raise
    with os.fdopen(file, "rb+") as left:
        try:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        data = left.read()
        # The process may have died in the middle of a line.
        left.truncate(data.rfind(b"\n") + 1)
        _complete(path)


def _complete(path: Path) -> None:
    """Complete an open segment; an empty one is deleted."""
    final = path.with_name(path.name.removeprefix(".").removesuffix(".open") + _SUFFIX)
    # A process that died between the last two steps left both files, with the same lines.
    if path.stat().st_size:
        beside = path.with_suffix(".tmp")
        _compress(path, beside)
        beside.replace(final)
    path.unlink()


def _compress(source: Path, target: Path) -> None:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    # Left behind by a process that died, or planted.
    target.unlink(missing_ok=True)
    with (
        os.fdopen(os.open(source, os.O_RDONLY | _SAFELY), "rb") as lines,
        os.fdopen(os.open(target, _CREATE, _MODE), "wb") as out,
    ):
        while data := lines.read(_READ_BYTES):
            out.write(packer.compress(data))
        out.write(packer.flush())
        out.flush()
        os.fsync(out.fileno())


# The writer of a cluster's history: rows become lines in segments.
#
# Callers never wait: rows are encoded at once and written by a background task. Rows that do not
# fit into the queue or on the disk are dropped and counted.


_MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
_WRITTEN_AT_ONCE: Final = 4 * 1024 * 1024
_GATHER_S: Final = 0.05
_CLOSE_S: Final = 5.0
_NONCE_DIGITS: Final = 16

# Runs a blocking function: in a thread, or inline in tests.
Offload = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HistoryAuthor:
    """The identity of a writer.

    Attributes:
        nonce: random hexadecimal text of this run of the process.
    """

    cluster: str
    broker_id: str
    nonce: str


class _SegmentLine(NamedTuple):
    data: bytes
    rows: int


def _encode_line(line: Mapping[str, Any]) -> bytes:
    """A line with its end; empty if JSON cannot encode it, such as a lone surrogate."""
    try:
        return encode(line) + b"\n"
    except TypeError as error:
        log.warning("a line of history is dropped: it cannot be encoded: %s", error)
        return b""


class History:
    """`core.history.journal.RowJournal`: the lines of one daemon.

    Attributes:
        written, dropped: number of rows.
        queued_bytes: size of the lines that wait to be written.

    Args:
        directory: directory of the segments.
        offload: runs the writes, which block if the disk is slow.
    """

    def __init__(
        self,
        directory: Path,
        author: HistoryAuthor,
        clock: Clock,
        *,
        rules: SegmentRules | None = None,
        offload: Offload = asyncio.to_thread,
        max_queued_bytes: int = _MAX_QUEUED_BYTES,
    ) -> None:
        self._author = author
        self._nonce = author.nonce[:_NONCE_DIGITS]
        self._clock = clock
        self._rules = rules or SegmentRules()
        self._offload = offload
        self._segments = Segments(directory, author.broker_id, self._nonce, self._rules)
        self._max_queued_bytes = max_queued_bytes
        self._queue: deque[_SegmentLine] = deque()
        self._changed = asyncio.Event()
        self._tasks = TaskScope("history")
        self._writer: asyncio.Task[None] | None = None
        self._lines = 0
        self._known_segments = 0
        self._due_s = 0.0
        self._is_ending = False
        self._is_failing = False
        self.queued_bytes = 0
        self.written = 0
        self.dropped = 0

    @property
    def segments(self) -> int:
        """Number of complete segments."""
        return self._segments.kept.segments

    @property
    def size_bytes(self) -> int:
        """Size of the complete segments in bytes."""
        return self._segments.kept.size_bytes

    @property
    def removed_segments(self) -> int:
        """Segments deleted to make room."""
        return self._segments.kept.removed

    async def start(self) -> None:
        """Complete segments that earlier processes left open, then start to write."""
        await self._attempt(self._segments.recover, 0)
        self._writer = self._tasks.keep(self._process_queue(), "writer")

    async def close(self) -> None:
        """Write the queue and complete the segment, unless the disk takes too long.

        A segment that stays open is completed at the next start.
        """
        self._is_ending = True
        self._changed.set()
        if self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer], timeout=_CLOSE_S)
        await self._tasks.close()
        self.dropped += sum(line.rows for line in self._queue)
        self._queue.clear()
        self.queued_bytes = 0

    def record_rows(
        self,
        kind: RowKind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        """See `RowJournal.record_rows`."""
        when_ms = self._clock.wall_ms() if at_ms is None else at_ms
        for line in self._lines_of(kind, rows, partial(self._stamp, kind, when_ms, epoch, cycle)):
            has_room = self.queued_bytes + len(line.data) <= self._max_queued_bytes
            # After `close` nothing is written any more.
            if self._is_ending or not has_room or not line.data:
                self.dropped += line.rows
                continue
            self._queue.append(line)
            self.queued_bytes += len(line.data)
            self._changed.set()

    def _stamp(self, kind: RowKind[Any], at_ms: int, epoch: int, cycle: int) -> Stamp:
        self._lines += 1
        author = self._author
        line_id = f"{self._nonce}-{self._lines}"
        return Stamp(
            *(kind.name, kind.format, line_id, author.cluster, author.broker_id),
            *(at_ms, epoch, cycle),
        )

    @staticmethod
    def _lines_of(
        kind: RowKind[Any], rows: Sequence[Any], stamp: Callable[[], Stamp]
    ) -> Iterator[_SegmentLine]:
        if kind.is_packed:
            for some in batched(rows, ROWS_A_LINE):
                packed = packed_line_of(stamp(), kind.to_columns(some))
                yield _SegmentLine(_encode_line(packed), len(some))
        else:
            for row in rows:
                yield _SegmentLine(_encode_line(line_of(kind, stamp(), row)), 1)

    # The writer.

    async def _process_queue(self) -> None:
        while not self._is_ending or self._queue:
            if not self._queue:
                await self._wait_due()
            lines, rows = self._dequeue()
            if lines:
                append = partial(self._segments.append, lines, self._clock.wall_ms())
                if await self._attempt(append, rows):
                    self.written += rows
                self._note_begin()
            if self._segments.is_open and self._clock.now_s() >= self._due_s:
                await self._attempt(self._segments.complete, 0)
        await self._attempt(self._segments.complete, 0)

    def _note_begin(self) -> None:
        """Note the start of the segment if another one is open now."""
        if self._segments.count != self._known_segments:
            self._known_segments = self._segments.count
            self._due_s = self._clock.now_s() + self._rules.max_s

    async def _wait_due(self) -> None:
        """Wait for lines, for the maximum age of the open segment, or for `close`."""
        left_s = self._due_s - self._clock.now_s() if self._segments.is_open else None
        try:
            async with asyncio.timeout(left_s):
                await self._changed.wait()
        except TimeoutError:
            return
        if not self._is_ending:
            # More lines will follow: a thread for each line would cost more than the line.
            await asyncio.sleep(_GATHER_S)

    def _dequeue(self) -> tuple[list[bytes], int]:
        """Take lines from the queue; returns them with their number of rows."""
        lines: list[bytes] = []
        size = rows = 0
        while self._queue and size < _WRITTEN_AT_ONCE:
            line = self._queue.popleft()
            lines.append(line.data)
            size += len(line.data)
            rows += line.rows
        self.queued_bytes -= size
        if not self._queue:
            self._changed.clear()
        return lines, rows

    async def _attempt(self, work: Callable[[], None], rows: int) -> bool:
        try:
            await self._offload(work)
        except OSError as error:
            self.dropped += rows
            if not self._is_failing:
                log.warning(
                    "cannot write history: %s; rows are dropped until a write succeeds", error
                )
            self._is_failing = True
            return False
        if self._is_failing and rows:
            log.info("history is written again; %d rows were dropped", self.dropped)
            self._is_failing = False
        return True
