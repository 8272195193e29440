"""An audit log that is read while its daemon writes and rotates it."""

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord
from broker_ctl.security.audit.chain import MAX_LINE_BYTES

# A rotation leaves one number without a file at a time.
_MAX_MISSING: Final = 2


class FollowedLog:
    """Reads each line once, also if the log is rotated several times between two calls.

    Lines of files that were deleted before they were read are missing.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: BinaryIO = path.open("rb")
        self._newer: deque[BinaryIO] = deque()
        self._last_line = b""

    def close(self) -> None:
        """Close all files."""
        for file in (self._opened, *self._newer):
            file.close()

    def new_lines(self) -> Iterator[bytes]:
        """The whole lines since the last call, oldest first.

        Raises:
            OSError: a file cannot be read.
        """
        # First: what was written before the rotation is read too.
        is_rotated = self._is_rotated()
        yield from self._read()
        if is_rotated:
            self._open_newer()
        while self._newer:
            self._opened.close()
            self._opened = self._newer.popleft()
            yield from self._read()

    def _read(self) -> Iterator[bytes]:
        """The lines up to the last newline; an unfinished one is left for the next call."""
        file = self._opened
        while True:
            line = file.readline(MAX_LINE_BYTES + 2)
            if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
                file.seek(-len(line), os.SEEK_CUR)
                return
            self._last_line = line
            yield line

    def _is_rotated(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._opened.fileno()))
        except FileNotFoundError:
            # Between two steps of a rotation.
            return False

    def _open_newer(self) -> None:
        """Open the files after the one that was read, which may have been deleted meanwhile.

        From the newest to older ones: a rotation meanwhile moves files only in this direction, so
        that none is passed over, and one that is met twice is known.
        """
        last = _sequence(self._last_line)
        known = [os.fstat(self._opened.fileno())]
        number = missing = 0
        while missing < _MAX_MISSING:
            try:
                file = self._numbered(number).open("rb")
            except FileNotFoundError:
                missing += 1
                number += 1
                continue
            missing, status = 0, os.fstat(file.fileno())
            if os.path.samestat(status, known[0]) or (number and 0 < _first(file) <= last):
                file.close()
                return
            if any(os.path.samestat(status, other) for other in known):
                file.close()
            else:
                known.append(status)
                self._newer.appendleft(file)
            number += 1

    def _numbered(self, number: int) -> Path:
        name = self._path.name
        return self._path.with_name(f"{name}.{number}") if number else self._path


def _first(file: BinaryIO) -> int:
    """The sequence number of a file's first line; 0: it has none."""
    line = file.readline(MAX_LINE_BYTES + 2)
    file.seek(0)
    return _sequence(line)


def _sequence(line: bytes) -> int:
    try:
        sequence = decode_object(line).get("sequence")
    except CorruptRecord:
        return 0
    return sequence if isinstance(sequence, int) else 0
