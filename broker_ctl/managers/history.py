"""Rows of history on disk: NDJSON in segments, for whoever analyses them later.

The segment that is being written has a name of its own and gets its final one when it is complete,
in one rename: a reader that takes ``NAME-*.ndjson`` only ever sees whole segments.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 10_000
_BATCH: Final = 500

# Runs something that may block; a thread, except where a test wants it inline.
Offload = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """How large a segment grows, and how many complete ones are kept."""

    max_bytes: int = 8 * 1024 * 1024
    max_segments: int = 32


class HistoryWriter:
    """Writes rows of one kind into a directory; what cannot be written is dropped and counted.

    Args:
        directory: where; made if it is missing.
        name: of the kind of rows.
        clock: names the segments.
        rules: sizes.
        offload: runs the writes, which a slow disk may block.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        clock: Clock,
        *,
        rules: SegmentRules | None = None,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._directory = directory
        self._name = name
        self._clock = clock
        self._rules = rules or SegmentRules()
        self._offload = offload
        self._open = directory / f"{name}.open"
        # None, the last to be queued, ends the writer.
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_QUEUED)
        self._tasks = TaskScope(f"history of {name}")
        self._writer: asyncio.Task[None] | None = None
        self._sequence = 0
        self.dropped = 0
        self.written = 0

    async def start(self) -> None:
        """Complete what an earlier process left open, then begin to write."""
        await self._attempt(self._recover, 0)
        self._writer = self._tasks.start(self._work_off(), "writer")

    async def close(self) -> None:
        """Write what is queued, and complete the segment; the caller gives the deadline."""
        if self._writer is not None and not self._writer.done():
            await self._queue.put(None)
            await asyncio.wait([self._writer])
        await self._tasks.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """Queue one row of plain JSON values; never waits."""
        try:
            self._queue.put_nowait(encode(row) + b"\n")
        except asyncio.QueueFull:
            self.dropped += 1

    async def _work_off(self) -> None:
        is_ending = False
        while not is_ending:
            taken = [await self._queue.get()]
            taken += [self._queue.get_nowait() for _ in range(min(_BATCH, self._queue.qsize()))]
            is_ending = None in taken
            await self._write([line for line in taken if line is not None])
        await self._attempt(self._complete, 0)

    async def _write(self, lines: list[bytes]) -> None:
        if lines and await self._attempt(lambda: self._append(lines), len(lines)):
            self.written += len(lines)

    async def _attempt(self, work: Callable[[], None], rows: int) -> bool:
        try:
            await self._offload(work)
        except OSError as error:
            self.dropped += rows
            log.warning("history of %s: %s; %d rows are lost", self._name, error, rows)
            return False
        return True

    # On disk.

    def _append(self, lines: list[bytes]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._open.open("ab") as out:
            out.writelines(lines)
            is_full = out.tell() >= self._rules.max_bytes
        if is_full:
            self._complete()

    def _recover(self) -> None:
        """A process that died while it wrote may have left half a row."""
        if not self._open.exists():
            return
        data = self._open.read_bytes()
        if not data.endswith(b"\n"):
            self._open.write_bytes(data[: data.rfind(b"\n") + 1])
        self._complete()

    def _complete(self) -> None:
        """Give the open segment its final name, and remove the oldest ones."""
        if not self._open.exists():
            return
        self._sequence += 1
        final = f"{self._name}-{self._clock.wall_ms():013d}-{self._sequence:04d}.ndjson"
        self._open.replace(self._directory / final)
        segments = sorted(self._directory.glob(f"{self._name}-*.ndjson"))
        for old in segments[: -self._rules.max_segments]:
            old.unlink(missing_ok=True)
