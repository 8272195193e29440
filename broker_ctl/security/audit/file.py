"""The file of the audit log, with its rotated predecessors. All functions may block.

``audit.log`` is written; ``audit.log.1`` is the newest rotated file. The chain continues over
restarts and rotations. The file is locked while its process lives: two processes with one file
would each continue the chain.
"""

import fcntl
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from broker_ctl.errors import CorruptRecord
from broker_ctl.security.audit.chain import MAX_LINE_BYTES, Link, read_link

log = logging.getLogger(__name__)

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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
        self.end = Link()

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
            if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
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

    def _continue(self) -> Link:
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
            return Link()
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


def _last_link(file: int, size: int, path: Path) -> Link:
    start = max(0, size - MAX_LINE_BYTES - 1)
    tail = os.pread(file, size - start, start).removesuffix(b"\n")
    try:
        return read_link(tail[tail.rfind(b"\n") + 1 :])[1]
    except CorruptRecord as error:
        raise CorruptRecord(
            f"{path}: its last line is damaged: {error}; run broker-ctl audit verify, and move the "
            "file away"
        ) from error
