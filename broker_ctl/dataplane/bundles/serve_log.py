"""The log of a data plane's serve events, and the check that one broker served a topic.

The log of a data plane's serve events, which `ownership_checker` reads.

A serve event is the smallest unit of serving a topic: one message received or delivered. The
simulated data plane records one event per tick and token. The file form is one JSON object a line,

    {"t":81234567890123,"broker":"b1:8080","token":4294967301,"hashes":[12,99]}

with ``t`` in nanoseconds on CLOCK_BOOTTIME, which all processes of a machine share.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from io import FileIO
from operator import attrgetter
from pathlib import Path
from typing import Final, Protocol

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
    """A sink of serve events."""

    def record(self, event: ServeEvent) -> None:
        """Add an event. Never raises: a broker does not stop serving because its log fails."""
        ...

    def close(self) -> None:
        """Close the log's files."""
        ...


class FileServeLog:
    """Serve events in an append-only file of at most ``max_bytes``.

    Every event is one unbuffered write, so a SIGKILL loses at most the end of the last line. Once
    the log is full or the disk refuses a write, ``dropped`` counts the missing events.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file: FileIO | None = None
        self._size_bytes = 0
        self.dropped = 0

    def record(self, event: ServeEvent) -> None:
        """Append an event, or count it as dropped."""
        value = {
            "t": event.t_ns,
            "broker": event.broker,
            "token": event.token,
            "hashes": event.hashes,
        }
        line = codec.encode(value) + b"\n"
        if self.dropped == 0 and self._append(line):
            return
        if self.dropped == 0:
            log.warning(
                "serve log %s is full at %d bytes: dropping events", self._path, self._size_bytes
            )
        # After one gap all later events are dropped too: the checker would report false faults for
        # a log with a gap.
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
            log.warning("cannot write serve log %s: %s; dropping events", self._path, error)
            return False
        # A disk that is almost full accepts part of a line; the reader skips it.
        return written == len(line)

    def _open(self) -> FileIO:
        file = FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+")
        # A torn line of an earlier process would corrupt the first line of this one.
        self._size_bytes = _end_of_last_line(file)
        file.truncate(self._size_bytes)
        return file


def _end_of_last_line(file: FileIO) -> int:
    """Offset of the end of the last complete line; searched backwards, block by block."""
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


def read_events(path: Path) -> Iterator[ServeEvent]:
    """Read the events of one file in order; a torn last line is skipped.

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
                event = ServeEvent(
                    value["t"], value["broker"], value["token"], tuple(value["hashes"])
                )
            except (CorruptRecord, KeyError, TypeError) as error:
                raise CorruptRecord(f"{path}:{number}: {error!r} is not a serve event") from error
            if event.t_ns < last_ns:
                raise CorruptRecord(f"{path}:{number}: events must not go back in time")
            last_ns = event.t_ns
            yield event


def merge_logs(logs: Iterable[Iterable[ServeEvent]]) -> Iterator[ServeEvent]:
    """Merge the events of several brokers of one machine by time; each log is in order."""
    return merge(*logs, key=attrgetter("t_ns"))


# Checks from the acts of all brokers that every topic was served, by one owner at a time.


# A tick may be late on a busy machine: a hash counts as served for this many ticks after an act.
_ALIVE_TICKS: Final = 10
_MAX_FAULTS: Final = 10
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class OwnershipVerdict:
    """Verdict on the acts of all brokers.

    Attributes:
        owners_ok: whether no hash was double served, and each expected hash was served at the end.
        double_served: number of hashes with an act under a lower token after one under a higher
            token, or with acts under one token on two brokers.
        unserved_s: the longest time, beyond one tick, without an act of an expected hash, from its
            first act to the end.
        acts: number of single acts that were judged.
        faults: the first few faults, in words.
    """

    owners_ok: bool
    double_served: int
    unserved_s: float
    acts: int
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Served:
    """The state of one hash so far."""

    token: int
    broker: str
    last_ns: int
    gap_ns: int = 0


def judge(
    acts: Iterable[ServeEvent],
    tick_s: float,
    expected: Collection[int],
    end_ns: int | None = None,
) -> OwnershipVerdict:
    """Judge acts that are in order of time (`serve_log.merge_logs`), in one pass.

    Args:
        acts: the acts of all brokers.
        tick_s: how often a served topic acts.
        expected: the hashes with traffic throughout the run; others are judged for double serving
            only.
        end_ns: end of the run; later acts are judged for double serving only. None: the last act.
    """
    stories: dict[int, _Served] = {}
    doubled: dict[int, str] = {}
    count = last_ns = 0
    for act in acts:
        count += len(act.hashes)
        last_ns = act.t_ns
        _follow(act, stories, doubled, end_ns)
    end_ns = last_ns if end_ns is None else end_ns
    faults = list(doubled.values())
    longest_ns = 0
    for position in sorted(expected):
        story = stories.get(position)
        if story is None:
            faults.append(f"hash 0x{position:08x} was never served")
            continue
        tail_ns = end_ns - story.last_ns
        if tail_ns > _ALIVE_TICKS * tick_s * _NS:
            faults.append(f"hash 0x{position:08x} was not served in the last {_s(tail_ns)} s")
        longest_ns = max(longest_ns, story.gap_ns, tail_ns)
    return OwnershipVerdict(
        owners_ok=not faults,
        double_served=len(doubled),
        unserved_s=max(0.0, longest_ns / _NS - tick_s),
        acts=count,
        faults=tuple(faults[:_MAX_FAULTS]),
    )


def _follow(
    act: ServeEvent, stories: dict[int, _Served], doubled: dict[int, str], end_ns: int | None
) -> None:
    """Apply one act to the state of each of its hashes."""
    now_ns, token, broker = act.t_ns, act.token, act.broker
    is_over = end_ns is not None and now_ns > end_ns
    for position in act.hashes:
        story = stories.get(position)
        if story is None:
            if not is_over:
                stories[position] = _Served(token, broker, now_ns)
            continue
        if token < story.token or (token == story.token and broker != story.broker):
            doubled.setdefault(
                position,
                f"hash 0x{position:08x} acted under token {token} on {broker}"
                f" after token {story.token} on {story.broker}",
            )
        else:
            story.token, story.broker = token, broker
        if not is_over:
            story.gap_ns = max(story.gap_ns, now_ns - story.last_ns)
            story.last_ns = now_ns


def _s(ns: int) -> str:
    return f"{ns / _NS:.1f}"
