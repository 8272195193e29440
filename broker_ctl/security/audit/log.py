"""The audit log of a daemon: a bounded queue of events, and the task that writes them."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.errors import CorruptRecord, StartError
from broker_ctl.security.audit.budget import RefusalBudget
from broker_ctl.security.audit.chain import Link
from broker_ctl.security.audit.event import AuditEvent, EventKind
from broker_ctl.security.audit.file import AuditFile
from broker_ctl.security.audit.syslog import AuditSyslog
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 4_096
# Refusals leave room for changes.
_MAX_REFUSALS_QUEUED: Final = 1_024
_WRITTEN_AT_ONCE: Final = 256
_CLOSE_S: Final = 2.0

Offload = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AuditRules:
    """Where events go; with neither file nor syslog nothing is recorded.

    Attributes:
        file: path of the file.
        max_bytes: size at which the file is rotated.
        kept: number of rotated files.
        syslog: address of `AuditSyslog`; empty: none.
        is_required: whether nothing may be changed while events cannot be written.
    """

    file: Path | None = None
    max_bytes: int = 100 * 1024 * 1024
    kept: int = 10
    syslog: str = ""
    is_required: bool = False


class AuditLog:
    """Records events; never blocks the event loop.

    Attributes:
        written, lost: number of events.
        is_failing: whether the last attempt to write failed; the next event causes the next one.

    Args:
        broker: broker id of this daemon, which each event has.
        offload: runs the writes, which block if the disk is slow.
    """

    def __init__(
        self,
        rules: AuditRules,
        broker: str,
        clock: Clock,
        *,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._rules = rules
        self._broker = broker
        self._clock = clock
        self._offload = offload
        path = rules.file
        self._file = None if path is None else AuditFile(path, rules.max_bytes, rules.kept)
        self._syslog = AuditSyslog(rules.syslog) if rules.syslog else None
        self._end = Link()
        self._queue: deque[AuditEvent] = deque()
        self._changed = asyncio.Event()
        self._budget = RefusalBudget()
        self._tasks = TaskScope("audit log")
        self._writer: asyncio.Task[None] | None = None
        self._is_ending = False
        self._unreported = 0
        self.is_failing = False
        self.written = 0
        self.lost = 0

    @property
    def is_on(self) -> bool:
        """Whether events are recorded."""
        return self._file is not None or self._syslog is not None

    @property
    def queued(self) -> int:
        """Number of events that wait to be written."""
        return len(self._queue)

    @property
    def must_refuse(self) -> bool:
        """Whether nothing may be changed now, because the change might not be recorded."""
        is_blocked = self.is_failing or len(self._queue) >= _MAX_QUEUED
        return self._rules.is_required and is_blocked

    async def start(self) -> None:
        """Open the file, then record the start and begin to write.

        Raises:
            StartError: the file cannot be written, or its chain cannot be continued.
        """
        if not self.is_on:
            return
        if self._file is not None:
            try:
                await self._offload(self._file.open)
            except (OSError, CorruptRecord) as error:
                reason = getattr(error, "strerror", None) or error
                raise StartError(f"auditFile={self._rules.file}: {reason}") from error
        self._writer = self._tasks.keep(self._process_queue(), "writer")
        self.record(AuditEvent(kind=EventKind.START, at_ms=self._clock.wall_ms()))

    async def close(self) -> None:
        """Write the queue, unless the disk takes too long, and close the file."""
        self._is_ending = True
        self._changed.set()
        if self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer], timeout=_CLOSE_S)
        await self._tasks.close()
        if self._queue:
            log.error("%d events of the audit log were not written", len(self._queue))
        if self._file is not None:
            self._file.close()
        if self._syslog is not None:
            self._syslog.close()

    def record(self, event: AuditEvent) -> None:
        """Record an event, or count it as lost where the queue is full."""
        if not self.is_on or self._is_ending:
            return
        if event.kind is EventKind.REFUSAL:
            if not self._budget.spend(event.address, self._clock.now_s()):
                return
            is_full = len(self._queue) >= _MAX_REFUSALS_QUEUED
        else:
            is_full = len(self._queue) >= _MAX_QUEUED
        if is_full:
            self.lost += 1
            self._unreported += 1
        else:
            self._queue.append(event)
        self._changed.set()

    async def _process_queue(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            # Events that arrive during a write are written next, also after `close`.
            while self._queue and await self._attempt():
                pass
            if self._is_ending:
                return

    async def _attempt(self) -> bool:
        """Write the oldest events; those that cannot be written stay in the queue."""
        events = [self._queue[index] for index in range(min(len(self._queue), _WRITTEN_AT_ONCE))]
        gap = replace(_gap(self._clock), lost=self._unreported + self._budget.take_omitted())
        rows = [self._row(event) for event in (*([gap] if gap.lost else []), *events)]
        self._unreported = 0
        try:
            # Only the queue's end may change meanwhile.
            await self._offload(partial(self._write, rows))
        except (OSError, CorruptRecord) as error:
            self._unreported += gap.lost
            if not self.is_failing:
                log.error(  # noqa: TRY400  # the error says all
                    "cannot write the audit log: %s; events wait in a queue", error
                )
            self.is_failing = True
            return False
        for _ in events:
            self._queue.popleft()
        self.written += len(events)
        if self.is_failing:
            log.info("the audit log is written again; %d events were lost", self.lost)
            self.is_failing = False
        return True

    def _row(self, event: AuditEvent) -> dict[str, Any]:
        return {**event.row(), "broker": self._broker}

    def _write(self, rows: list[dict[str, Any]]) -> None:
        """Write to the file, then to syslog; only the file's failure keeps events in the queue."""
        if self._file is None:
            lines = []
            for row in rows:
                line, self._end = self._end.append(row)
                lines.append(line)
        else:
            lines = self._file.append(rows)
        if self._syslog is None:
            return
        try:
            self._syslog.send(lines, self._clock.wall_ms())
        except OSError as error:
            if self._file is None:
                raise
            log.warning("cannot send %d events of the audit log to syslog: %s", len(rows), error)


def _gap(clock: Clock) -> AuditEvent:
    reason = "events that a full queue lost, or refusals beyond the limit for a minute"
    return AuditEvent(kind=EventKind.GAP, at_ms=clock.wall_ms(), reason=reason)
