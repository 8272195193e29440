"""Storage of a simulated broker process: replicas in memory, or in a directory.

Replicas in a directory, which survives the process.

    held            one JSON line for each change of what is held, the newest last:
                    [TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH], or [TOPIC, PARTITION] when it went
    records/T/P     the log of a replica, from its first record on: frames of length, CRC-32 and
                    leader epoch, four bytes each, largest first, and the value

Every record is handed to the operating system before it is acknowledged or replicated, so that it
survives the end of the process, even by SIGKILL. Nothing is flushed to the disk: a machine that
loses power loses unwritten records, as with Kafka, which relies on the replicas of other machines.
A torn write of a killed process is skipped at the next start, and overwritten.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from broker_ctl import codec
from broker_ctl.core.partitions.values import TopicPartition, validate_topic
from broker_ctl.errors import CorruptRecord, InvalidName
from broker_ctl.lab.replication.log import LogRecord

# Storage of a simulated broker process: the replicas that it holds, and their records.
#
# A record is written here before it is sent to a follower or acknowledged, so that it survives the
# end of the process.


class Holding(NamedTuple):
    """A replica on disk: its topic id, and the newest leader epoch that was instructed."""

    partition: TopicPartition
    topic_id: str
    leader_epoch: int


@dataclass(slots=True)
class Stored:
    """A replica as it was found at the start."""

    topic_id: str
    leader_epoch: int
    records: list[LogRecord] = field(default_factory=list)


class ReplicaStorage(Protocol):
    """All methods raise OSError if the disk refuses; earlier writes stay."""

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All replicas, as of the last complete write."""
        ...

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Record that these replicas are held, each under its newest leader epoch."""
        ...

    def append(self, partition: TopicPartition, records: Sequence[LogRecord]) -> None:
        """Add records at the end of a replica's log."""
        ...

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off the records from ``end_offset`` on."""
        ...

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove replicas and their records."""
        ...

    def close(self) -> None:
        """Give up all resources."""
        ...


class MemoryStorage:
    """Storage in memory; pass the same object to the next process to simulate a disk."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, Stored] = {}

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All replicas, as copies that do not change."""
        return {
            partition: Stored(stored.topic_id, stored.leader_epoch, list(stored.records))
            for partition, stored in self._held.items()
        }

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Remember."""
        for partition, topic_id, leader_epoch in holdings:
            stored = self._held.get(partition)
            if stored is None:
                self._held[partition] = Stored(topic_id, leader_epoch)
            else:
                stored.topic_id, stored.leader_epoch = topic_id, leader_epoch

    def append(self, partition: TopicPartition, records: Sequence[LogRecord]) -> None:
        """Add records."""
        self._held[partition].records.extend(records)

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off records."""
        del self._held[partition].records[end_offset:]

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget replicas."""
        for partition in partitions:
            self._held.pop(partition, None)

    def close(self) -> None:
        """Do nothing: the next process loads it."""


_HEAD: Final = struct.Struct(">IIi")
# Number of superseded lines after which the file is rewritten.
_SPARE_LINES: Final = 10_000


class DirectoryStorage:
    """`ReplicaStorage` in a directory, which is created if it is absent."""

    def __init__(self, directory: Path) -> None:
        self._held_path = directory / "held"
        self._records_path = directory / "records"
        self._held: dict[TopicPartition, tuple[str, int]] = {}
        self._lines = 0
        self._file: int | None = None
        # End of each record in its file, for logs that have records.
        self._ends: dict[TopicPartition, list[int]] = {}

    def load(self) -> Mapping[TopicPartition, Stored]:
        """Load all replicas; skip torn writes, and remove logs without a replica."""
        self.close()
        self._records_path.mkdir(parents=True, exist_ok=True)
        self._held = _read_held(self._held_path)
        self._write_held()
        found = {key: Stored(*held) for key, held in self._held.items()}
        self._ends = {}
        for partition, path in tuple(self._logs()):
            if partition in found:
                found[partition].records = self._read_log(partition, path)
            else:
                path.unlink()
        return found

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Record these replicas, in one write."""
        lines = [codec.encode([*one.partition, *one[1:]]) for one in holdings]
        self._append_held(lines)
        self._held.update((one.partition, (one.topic_id, one.leader_epoch)) for one in holdings)

    def append(self, partition: TopicPartition, records: Sequence[LogRecord]) -> None:
        """Add records at the end of a log's file, in one write."""
        frames = [_frame(record) for record in records]
        path = self._log_path(partition)
        ends = self._ends.setdefault(partition, [])
        end = ends[-1] if ends else 0
        if not ends:
            path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            # The remains of a torn write would corrupt this one.
            file.truncate(end)
            _write(file.fileno(), b"".join(frames))
        for frame in frames:
            end += len(frame)
            ends.append(end)

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off records."""
        ends = self._ends.get(partition, [])
        if end_offset < len(ends):
            os.truncate(self._log_path(partition), ends[end_offset - 1] if end_offset else 0)
            del ends[end_offset:]

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove replicas, then their records.

        Records that are left are removed at the next start.
        """
        gone = [partition for partition in partitions if partition in self._held]
        self._append_held([codec.encode(list(partition)) for partition in gone])
        for partition in gone:
            del self._held[partition]
            if self._ends.pop(partition, None) is not None:
                self._log_path(partition).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append_held(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        if self._lines > 2 * len(self._held) + _SPARE_LINES:
            self._write_held()
        if self._file is None:
            raise OSError(f"{self._held_path} is not open")
        before = os.fstat(self._file).st_size
        try:
            _write(self._file, b"".join(line + b"\n" for line in lines))
        except OSError:
            os.truncate(self._file, before)
            raise
        self._lines += len(lines)

    def _write_held(self) -> None:
        """Rewrite the file with current replicas only."""
        self.close()
        fresh = self._held_path.with_name("held.new")
        rows = (codec.encode([*key, *held]) + b"\n" for key, held in self._held.items())
        fresh.write_bytes(b"".join(rows))
        fresh.replace(self._held_path)
        self._lines = len(self._held)
        self._file = os.open(self._held_path, os.O_WRONLY | os.O_APPEND)

    def _log_path(self, partition: TopicPartition) -> Path:
        return self._records_path / validate_topic(partition.topic) / str(partition.partition)

    def _logs(self) -> Iterator[tuple[TopicPartition, Path]]:
        for path in self._records_path.glob("*/*"):
            if path.name.isdigit():
                yield TopicPartition(path.parent.name, int(path.name)), path

    def _read_log(self, partition: TopicPartition, path: Path) -> list[LogRecord]:
        records: list[LogRecord] = []
        ends = self._ends[partition] = []
        for record, end in _frames(path.read_bytes()):
            records.append(record)
            ends.append(end)
        return records


def _read_held(path: Path) -> dict[TopicPartition, tuple[str, int]]:
    """Replay the lines; a torn last line is skipped."""
    held: dict[TopicPartition, tuple[str, int]] = {}
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for line in lines:
        topic, number, *rest = _row(path, line)
        partition = TopicPartition(topic, number)
        if rest:
            held[partition] = (rest[0], rest[1])
        else:
            held.pop(partition, None)
    return held


def _row(path: Path, line: bytes) -> list[Any]:
    try:
        row = codec.decode(line)
        validate_topic(row[0])
    except (CorruptRecord, InvalidName, TypeError, IndexError) as error:
        raise OSError(f"{path}: {line[:80]!r}: {error}") from error
    return list(row)


def _frame(record: LogRecord) -> bytes:
    epoch, value = record
    return _HEAD.pack(len(value), zlib.crc32(value, epoch), epoch) + value


def _frames(data: bytes) -> Iterator[tuple[LogRecord, int]]:
    """Records and their ends, up to the first incomplete one."""
    start = 0
    while start + _HEAD.size <= len(data):
        length, check, epoch = _HEAD.unpack_from(data, start)
        end = start + _HEAD.size + length
        value = data[start + _HEAD.size : end]
        if len(value) < length or zlib.crc32(value, epoch) != check:
            return
        yield LogRecord(epoch, value), end
        start = end


def _write(file: int, data: bytes) -> None:
    """Write all of it; a disk that is almost full accepts a part, and refuses the rest."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
