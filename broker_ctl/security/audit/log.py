"""The audit log of a daemon: a bounded queue of events, and the task that writes them."""

import asyncio
import fcntl
import logging
import math
import os
import socket
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.errors import CorruptRecord, StartError
from broker_ctl.security.audit.event import (
    MAX_LINE_BYTES,
    AuditEvent,
    ChainLink,
    EventKind,
    read_link,
)
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Which refused requests have a line each: a flood of them must not rotate the log away.
#
# Of the others, one line stands for all of one address, role and status within `SUM_S`. A daemon
# that is killed loses no more than the sums of that time.


WINDOW_S: Final = 60.0
MAX_REFUSALS: Final = 120
MAX_OF_ADDRESS: Final = 30
SUM_S: Final = 15.0
# Clients beyond these have one sum together.
MAX_SUMS: Final = 64

_Key = tuple[str, str, str]
_OTHERS: Final[_Key] = ("", "", "")
_BEYOND: Final = "further refusals, beyond the number that is listed in a minute"
_OF_OTHERS: Final = "further refusals, of more clients than are counted one by one"


class RefusalAggregator:
    """Passes `MAX_REFUSALS` a minute, `MAX_OF_ADDRESS` of one address, and sums up the others.

    Attributes:
        due_s: monotonic time at which the sums are to be written; infinity: there are none.
    """

    def __init__(self) -> None:
        self._began_s = -math.inf
        self._passed = 0
        # At most MAX_REFUSALS entries.
        self._of_address: dict[str, int] = {}
        self._sums: dict[_Key, AuditEvent] = {}
        self.due_s = math.inf

    def passes(self, address: str, now_s: float) -> bool:
        """Whether a refusal has a line of its own; if not, `add` it."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._passed = now_s, 0
            self._of_address.clear()
        of_address = self._of_address.get(address, 0)
        if self._passed >= MAX_REFUSALS or of_address >= MAX_OF_ADDRESS:
            return False
        self._passed += 1
        self._of_address[address] = of_address + 1
        return True

    def add(self, event: AuditEvent, now_s: float) -> None:
        """Add a refusal to the sum of its address, role and status."""
        key = (event.address, event.principal, event.status)
        if key not in self._sums and len(self._sums) >= MAX_SUMS:
            key = _OTHERS
        known = self._sums.get(key)
        if known is not None:
            self._sums[key] = replace(known, at_ms=event.at_ms, count=known.count + 1)
            return
        address, principal, status = key
        self._sums[key] = AuditEvent(
            kind=EventKind.REFUSAL,
            at_ms=event.at_ms,
            since_ms=event.at_ms,
            count=1,
            address=address,
            principal=principal,
            status=status,
            reason=_OF_OTHERS if key == _OTHERS else _BEYOND,
        )
        self.due_s = min(self.due_s, now_s + SUM_S)

    def __len__(self) -> int:
        return len(self._sums)

    def take(self) -> list[AuditEvent]:
        """The sums, which begin again."""
        sums, self._sums, self.due_s = list(self._sums.values()), {}, math.inf
        return sums


# The audit log's lines as syslog messages of RFC 5424, sent as datagrams. Functions may block.


_PORT: Final = 514
_APP: Final = "broker-ctl"
_MESSAGE_ID: Final = "audit"


class AuditSyslog:
    """Sends lines to a syslog server.

    A datagram that is lost on its way is not sent again; the sequence numbers of the lines that
    arrived show what is missing.

    Args:
        address: ``host:port``, ``host`` for port 514, or the path of a socket such as /dev/log.
    """

    def __init__(self, address: str) -> None:
        self._address = _parse(address)
        self._handler: _Handler | None = None

    def send(self, lines: Sequence[bytes], at_ms: int) -> None:
        """Send lines, each as one message of the time ``at_ms``.

        Raises:
            OSError: a message cannot be sent.
        """
        if self._handler is None:
            self._handler = _Handler(self._address, SysLogHandler.LOG_AUTHPRIV)
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        head = f"1 {stamp} {socket.gethostname() or '-'} {_APP} {os.getpid()} {_MESSAGE_ID} - "
        for line in lines:
            text = head + line.decode().rstrip("\n")
            self._handler.emit(logging.makeLogRecord({"msg": text, "levelname": "INFO"}))

    def close(self) -> None:
        """Close the socket."""
        if self._handler is not None:
            self._handler.close()
            self._handler = None


class _Handler(SysLogHandler):
    """Raises what the standard handler prints to stderr."""

    append_nul = False

    def handleError(self, _: logging.LogRecord) -> None:  # noqa: N802  # the name is logging's
        """Raise the error that is being handled."""
        raise  # noqa: PLE0704  # logging calls this inside its except clause


def _parse(address: str) -> str | tuple[str, int]:
    if address.startswith("/"):
        return address
    host, colon, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if colon else (address, _PORT)


# The file of the audit log, with its rotated predecessors. All functions may block.
#
# ``audit.log`` is written; ``audit.log.1`` is the newest rotated file. The chain continues over
# restarts and rotations. The file is locked while its process lives: two processes with one file
# would each continue the chain.


_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class AuditFile:
    """Appends events to the chain of one file.

    Attributes:
        end: of the chain.

    Args:
        path: of the file; its directory must exist.
        max_bytes: size at which the file is rotated.
        kept: number of rotated files; older ones are deleted.
    """

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file: int | None = None
        self._size = 0
        self.end = ChainLink()

    def open(self) -> None:
        """Open the file, and continue its chain.

        Raises:
            OSError: it cannot be opened, is in use, is not a regular file, or others may use it.
            CorruptRecord: its last line, or that of the newest rotated file, is damaged.
        """
        self._file, self._size = self._open_locked()
        try:
            self.end = self._continue()
        except BaseException:
            self.close()
            raise

    def append(self, rows: Sequence[dict[str, Any]]) -> list[bytes]:
        """Write events and wait for the disk; returns their lines.

        Raises:
            OSError: none of them is written.
            CorruptRecord: the file was damaged meanwhile.
        """
        if self._file is None:
            self.open()
        if self._size >= self._max_bytes:
            self._rotate()
        file, end, lines = self._file, self.end, []
        assert file is not None
        for row in rows:
            line, end = end.append(row)
            lines.append(line)
        data = b"".join(lines)
        try:
            _write(file, data)
            os.fdatasync(file)
        except OSError:
            # The next line must not follow a partial one; the next attempt opens the file again.
            try:
                os.ftruncate(file, self._size)
            finally:
                self.close()
            raise
        self._size += len(data)
        self.end = end
        return lines

    def close(self) -> None:
        """Close the file, which also unlocks it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_locked(self) -> tuple[int, int]:
        file = os.open(self._path, _FLAGS, _MODE)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{self._path} is not a regular file")
            if status.st_uid != os.geteuid() or status.st_mode & _FILE_OTHERS:
                raise PermissionError(
                    f"{self._path} must belong to the user of this process, with mode 0600"
                )
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OSError(f"another process writes {self._path}") from error
        except BaseException:
            os.close(file)
            raise
        return file, status.st_size

    def _continue(self) -> ChainLink:
        assert self._file is not None
        whole = _cut_partial_line(self._file, self._size)
        if whole != self._size:
            log.warning(
                "removed %d bytes of an unfinished line at the end of %s",
                self._size - whole,
                self._path,
            )
            self._size = whole
        if self._size:
            return _last_link(self._file, self._size, self._path)
        # The process may have died between the renaming of one file and the start of the next.
        newest = self._rotated(1)
        try:
            file = os.open(newest, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ChainLink()
        try:
            return _last_link(file, os.fstat(file).st_size, newest)
        finally:
            os.close(file)

    def _rotate(self) -> None:
        self.close()
        if self._kept:
            for number in range(self._kept, 1, -1):
                if (earlier := self._rotated(number - 1)).exists():
                    earlier.replace(self._rotated(number))
            self._path.replace(self._rotated(1))
        else:
            self._path.unlink()
        # `end` stays: the first line of the new file names the last hash of this one.
        self._file, self._size = self._open_locked()

    def _rotated(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _cut_partial_line(file: int, size: int) -> int:
    """Remove an unfinished last line; returns the size in bytes that is left."""
    start = max(0, size - MAX_LINE_BYTES - 1)
    tail = os.pread(file, size - start, start)
    whole = start + tail.rfind(b"\n") + 1
    if start and whole == start:
        raise CorruptRecord("the last line of the audit log is too long")
    if whole != size:
        os.ftruncate(file, whole)
    return whole


def _last_link(file: int, size: int, path: Path) -> ChainLink:
    start = max(0, size - MAX_LINE_BYTES - 1)
    tail = os.pread(file, size - start, start).removesuffix(b"\n")
    try:
        return read_link(tail[tail.rfind(b"\n") + 1 :])[1]
    except CorruptRecord as error:
        raise CorruptRecord(
            f"{path}: its last line is damaged: {error}; run broker-ctl audit verify, and move the "
            "file away"
        ) from error


# The audit log of a daemon: a bounded queue of events, and the task that writes them.


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
        self._end = ChainLink()
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
