"""What a data plane did, and when: the evidence that `act_judge` looks at.

An act is the least that serving a topic means: one message taken or handed out. The simulated
data plane records its acts once per tick and token. The file form is one JSON object a line,

    {"t":81234567890123,"broker":"b1:8080","token":4294967301,"hashes":[12,99]}

with ``t`` in nanoseconds on CLOCK_BOOTTIME, which all processes of a machine share.
"""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from io import FileIO
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from broker_ctl import codec
from broker_ctl.errors import CorruptRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeEvent:
    """At ``t_ns`` (CLOCK_BOOTTIME) a broker served the topics at ``hashes`` under ``token``."""

    t_ns: int
    broker: str
    token: int
    hashes: tuple[int, ...]


class ServeLog(Protocol):
    """Where acts are recorded."""

    def record(self, act: ServeEvent) -> None:
        """Keep an act. Never raises: who serves does not stop because the witness fails."""
        ...

    def close(self) -> None:
        """Give up all resources."""
        ...


class MemoryServeLog:
    """The last ``max_acts`` acts, in memory."""

    def __init__(self, max_acts: int) -> None:
        self.acts: deque[ServeEvent] = deque(maxlen=max_acts)

    def record(self, act: ServeEvent) -> None:
        """Keep an act; the oldest one makes room."""
        self.acts.append(act)

    def close(self) -> None:
        """Nothing to give up: the acts stay readable."""


class FileServeLog:
    """Acts in a file that is only appended to, up to ``max_bytes``.

    Every act is one unbuffered write, so a SIGKILL loses at most the end of the last line. A log
    that is full, or that the disk refuses, counts in ``dropped`` what it did not take.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file: FileIO | None = None
        self._size_bytes = 0
        self.dropped = 0

    def record(self, act: ServeEvent) -> None:
        """Append an act, or count it as dropped."""
        value = {"t": act.t_ns, "broker": act.broker, "token": act.token, "hashes": act.hashes}
        line = codec.encode(value) + b"\n"
        if self.dropped == 0 and self._append(line):
            return
        if self.dropped == 0:
            log.warning("%s takes no more acts after %d bytes", self._path, self._size_bytes)
        # After one gap all that follows is dropped too: a log with a hole would accuse wrongly.
        self.dropped += 1

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, line: bytes) -> bool:
        try:
            if self._file is None:
                self._file = self._open()
            if self._size_bytes + len(line) > self._max_bytes:
                return False
            written = self._file.write(line)
            self._size_bytes += written
        except OSError as error:
            log.warning("%s: %s", self._path, error)
            return False
        # A disk that is almost full takes half a line; the reader leaves that out.
        return written == len(line)

    def _open(self) -> FileIO:
        file = FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+")
        # A line that an earlier process was killed in would spoil the first one of ours.
        self._size_bytes = _end_of_last_line(file)
        file.truncate(self._size_bytes)
        return file


def _end_of_last_line(file: FileIO) -> int:
    """Where the last complete line ends; searched backwards, block by block."""
    block = 1 << 16
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def read_acts(path: Path) -> Iterator[ServeEvent]:
    """The acts of one file, as they were written; a torn last line is left out.

    Raises:
        CorruptRecord: a malformed line, or one that is older than the line before it; names it.
    """
    last_ns = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # the writer was killed inside its last write
            try:
                value = codec.decode_object(line)
                act = ServeEvent(
                    value["t"], value["broker"], value["token"], tuple(value["hashes"])
                )
            except (CorruptRecord, KeyError, TypeError) as error:
                raise CorruptRecord(f"{path}:{number}: {error!r} is no act") from error
            if act.t_ns < last_ns:
                raise CorruptRecord(f"{path}:{number}: acts must not go back in time")
            last_ns = act.t_ns
            yield act


def merged(logs: Iterable[Iterable[ServeEvent]]) -> Iterator[ServeEvent]:
    """The acts of several brokers of one machine in order of time; each log is in order."""
    return merge(*logs, key=attrgetter("t_ns"))
