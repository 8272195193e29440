"""The writer of a cluster's history: rows become lines in segments.

Callers never wait: rows are encoded at once and written by a background task. Rows that do not fit
into the queue or on the disk are dropped and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker_ctl.broker.history.segments import SegmentRules, Segments
from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.core.history.columns import Kind, RowT
from broker_ctl.core.history.cycle_rows import ROWS_A_LINE
from broker_ctl.core.history.lines import Stamp, line_of, packed_line_of
from broker_ctl.core.model.batches import batched
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
_WRITTEN_AT_ONCE: Final = 4 * 1024 * 1024
_GATHER_S: Final = 0.05
_CLOSE_S: Final = 5.0
_NONCE_DIGITS: Final = 16

# Runs a blocking function: in a thread, or inline in tests.
Offload = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Author:
    """The identity of a writer.

    Attributes:
        nonce: random hexadecimal text of this run of the process.
    """

    cluster: str
    broker_id: str
    nonce: str


class _Line(NamedTuple):
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
        author: Author,
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
        self._queue: deque[_Line] = deque()
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
        kind: Kind[RowT],
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

    def _stamp(self, kind: Kind[Any], at_ms: int, epoch: int, cycle: int) -> Stamp:
        self._lines += 1
        author = self._author
        line_id = f"{self._nonce}-{self._lines}"
        return Stamp(
            *(kind.name, kind.format, line_id, author.cluster, author.broker_id),
            *(at_ms, epoch, cycle),
        )

    @staticmethod
    def _lines_of(
        kind: Kind[Any], rows: Sequence[Any], stamp: Callable[[], Stamp]
    ) -> Iterator[_Line]:
        if kind.is_packed:
            for some in batched(rows, ROWS_A_LINE):
                packed = packed_line_of(stamp(), kind.to_columns(some))
                yield _Line(_encode_line(packed), len(some))
        else:
            for row in rows:
                yield _Line(_encode_line(line_of(kind, stamp(), row)), 1)

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
