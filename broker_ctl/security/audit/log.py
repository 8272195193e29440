"""The audit log of a daemon: a bounded queue of events, and the task that writes them."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.errors import CorruptRecord, StartError
from broker_ctl.security.audit.chain import Link
from broker_ctl.security.audit.event import AuditEvent, EventKind
from broker_ctl.security.audit.file import AuditFile
from broker_ctl.security.audit.refusals import SUM_S, RefusalAggregator
from broker_ctl.security.audit.syslog import AuditSyslog
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 4_096
# Refusals leave room for changes.
_MAX_REFUSALS_QUEUED: Final = 1_024
_WRITTEN_AT_ONCE: Final = 256
_CLOSE_S: Final = 2.0

Observe = Callable[[AuditEvent], None]
Offload = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AuditRules:
    """Where events go; with neither file nor syslog nothing is recorded.

    Attributes:
        file: path of the file.
        max_bytes: size at which the file is rotated.
        kept: number of rotated files.
        syslog: address of `AuditSyslog`; empty: none.
        is_required: whether nothing may be changed before its event is on the disk.
    """

    file: Path | None = None
    max_bytes: int = 100 * 1024 * 1024
    kept: int = 10
    syslog: str = ""
    is_required: bool = False


class AuditLog:
    """Records events; never blocks the event loop.

    Attributes:
        written, lost: number of events. Refusals are never lost while the daemon lives: those that
            the queue cannot hold are summed up.
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
        self._refusals = RefusalAggregator()
        # Who waits for the disk, by the number of events up to theirs since the start.
        self._waiting: deque[tuple[int, asyncio.Future[bool]]] = deque()
        self._taken = 0
        self._tasks = TaskScope("audit log")
        self._writer: asyncio.Task[None] | None = None
        self._is_ending = False
        self._observe: Observe | None = None
        self._unreported = 0
        self.is_failing = False
        self.written = 0
        self.lost = 0

    @property
    def is_on(self) -> bool:
        """Whether events are recorded, or observed."""
        return self._has_sink or self._observe is not None

    @property
    def _has_sink(self) -> bool:
        return self._file is not None or self._syslog is not None

    def observe(self, observe: Observe) -> None:
        """Call a function with each event, also where none is written; it must not block.

        Sums of refusals are observed when they are written.
        """
        self._observe = observe

    @property
    def queued(self) -> int:
        """Number of events that wait to be written."""
        return len(self._queue)

    @property
    def is_required(self) -> bool:
        """Whether nothing may be changed before `write` has returned True."""
        return self._rules.is_required

    async def start(self) -> None:
        """Open the file, then record the start and begin to write.

        Raises:
            StartError: the file cannot be written, or its chain cannot be continued.
        """
        if not self._has_sink:
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
            now_s = self._clock.now_s()
            is_listed = self._refusals.passes(event.address, now_s)
            if not is_listed or len(self._queue) >= _MAX_REFUSALS_QUEUED:
                is_first = not len(self._refusals)
                self._refusals.add(event, now_s)
                if not is_first and not is_listed:
                    return
            else:
                self._append(event)
        elif len(self._queue) >= _MAX_QUEUED:
            self.lost += 1
            self._unreported += 1
        else:
            self._append(event)
        self._changed.set()

    def _append(self, *events: AuditEvent) -> None:
        if self._observe is not None:
            for event in events:
                self._observe(event)
        if self._has_sink:
            self._queue.extend(events)

    async def write(self, event: AuditEvent, limit_s: float) -> bool:
        """Record an event and wait until it is on the disk; False: it was not within the limit."""
        if self._is_ending or len(self._queue) >= _MAX_QUEUED:
            return False
        is_written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append(event)
        self._waiting.append((self._taken + len(self._queue), is_written))
        self._changed.set()
        try:
            async with asyncio.timeout(limit_s):
                return await is_written
        except TimeoutError:
            return False

    async def _process_queue(self) -> None:
        while True:
            due_s = self._refusals.due_s
            limit_s = None if math.isinf(due_s) else max(0.0, due_s - self._clock.now_s())
            try:
                async with asyncio.timeout(limit_s):
                    await self._changed.wait()
            except TimeoutError:
                log.debug("writing the sums of refused requests")
            self._changed.clear()
            # Events that arrive during a write are written next, also after `close`.
            while self._has_work() and await self._attempt():
                pass
            if self._is_ending:
                return

    def _has_work(self) -> bool:
        """Whether events wait, with the sums of refusals that are due and have room."""
        now_s = self._clock.now_s()
        if self._is_ending:
            self._append(*self._refusals.take())
        elif now_s >= self._refusals.due_s:
            if len(self._queue) + len(self._refusals) > _MAX_REFUSALS_QUEUED:
                self._refusals.due_s = now_s + SUM_S
            else:
                self._append(*self._refusals.take())
        return bool(self._queue)

    async def _attempt(self) -> bool:
        """Write the oldest events; those that cannot be written stay in the queue."""
        events = [self._queue[index] for index in range(min(len(self._queue), _WRITTEN_AT_ONCE))]
        gap = replace(_gap(self._clock), lost=self._unreported)
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
            self._settle(is_written=False)
            return False
        for _ in events:
            self._queue.popleft()
        self._taken += len(events)
        self._settle(is_written=True)
        self.written += len(events)
        if self.is_failing:
            log.info("the audit log is written again; %d events were lost", self.lost)
            self.is_failing = False
        return True

    def _settle(self, *, is_written: bool) -> None:
        """Answer those whose events were written, or all of them after a failure."""
        while self._waiting and (not is_written or self._waiting[0][0] <= self._taken):
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(is_written)

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
    reason = "events that a full queue lost"
    return AuditEvent(kind=EventKind.GAP, at_ms=clock.wall_ms(), reason=reason)
