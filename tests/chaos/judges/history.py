"""Everything that was ever committed, from the transaction logs of the servers.

An observer over the network misses what comes and goes while it is cut off; the logs do not. A
transaction counts as committed where a quorum has logged it: what only one server has was never
acknowledged, and is taken back when that server joins again.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_MAGIC: Final = b"ZKLG"
_FILE_HEADER_BYTES: Final = 16
_HEADER: Final = struct.Struct("!qiqqi")
_LENGTH: Final = struct.Struct("!i")
_ENTRY: Final = struct.Struct("!qi")
_CREATES: Final = frozenset({1, 15})
_CREATE_CONTAINER: Final = 19
_CREATE_TTL: Final = 21
_DELETES: Final = frozenset({2, 20})
_SET: Final = 5
_MULTI: Final = 14
_CLOSE: Final = -11
_ERROR: Final = -1


@dataclass(frozen=True, slots=True)
class Created:
    path: str
    data: bytes
    is_ephemeral: bool


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class Changed:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The session of the transaction has ended, and its ephemerals with it."""


Change = Created | Deleted | Changed | Closed


@dataclass(frozen=True, slots=True)
class Transaction:
    """``time_ms`` is the leader's wall clock when it took the request."""

    zxid: int
    session: int
    time_ms: int
    changes: tuple[Change, ...]


class Archive:
    """Keeps the logs of each server, which purges old ones whenever it starts.

    A second name for a file is enough: what is appended or taken back later shows under it too.
    """

    def __init__(self, directory: Path, servers: Mapping[int, Path]) -> None:
        self._kept = {number: directory / f"server-{number}" for number in servers}
        self._data = servers
        for path in self._kept.values():
            path.mkdir(parents=True)

    def keep(self) -> None:
        """To be called before a server is started again, and at the end."""
        for number, data in self._data.items():
            for log in (data / "version-2").glob("log.*"):
                name = self._kept[number] / str(log.stat().st_ino)
                if not name.exists():
                    name.hardlink_to(log)

    def history(self) -> list[Transaction]:
        """What a quorum has logged."""
        self.keep()
        return committed(self._kept.values())


def committed(directories: Iterable[Path]) -> list[Transaction]:
    """What a quorum of the servers, each with a directory of logs, has logged, in order."""
    logs = [{one.zxid: one for one in read_directory(path)} for path in directories]
    seen = Counter(zxid for log in logs for zxid in log)
    quorum = len(logs) // 2 + 1
    everything = {zxid: one for log in logs for zxid, one in log.items()}
    return [everything[zxid] for zxid in sorted(seen) if seen[zxid] >= quorum]


def read_directory(logs: Path) -> Iterator[Transaction]:
    """All log files of one server."""
    for path in logs.iterdir():
        with path.open("rb") as log:
            yield from read_log(log)


def read_log(log: IO[bytes]) -> Iterator[Transaction]:
    """One file; it ends in zeros that were allotted in advance, or in a torn entry."""
    if not log.read(_FILE_HEADER_BYTES).startswith(_MAGIC):
        return
    while len(head := log.read(_ENTRY.size)) == _ENTRY.size:
        _, size = _ENTRY.unpack(head)
        entry = log.read(size + 1)  # and the mark of its end
        if not size or len(entry) <= size:
            return
        yield _transaction(entry[:size])


def _transaction(entry: bytes) -> Transaction:
    session, _, zxid, time_ms, kind = _HEADER.unpack_from(entry)
    body = _Reader(entry, _HEADER.size)
    changes: Sequence[Change | None]
    if kind == _MULTI:
        parts = [(body.integer(), body.buffer()) for _ in range(body.integer())]
        # Of a multi that was refused every part is an error.
        is_refused = any(part == _ERROR for part, _ in parts)
        changes = [] if is_refused else [_change(part, _Reader(data, 0)) for part, data in parts]
    else:
        changes = [_change(kind, body)]
    return Transaction(zxid, session, time_ms, tuple(one for one in changes if one is not None))


def _change(kind: int, body: "_Reader") -> Change | None:
    """None for what changes no node: a check, a new session, an error."""
    if kind in _CREATES:
        path, data = body.text(), body.buffer()
        for _ in range(body.integer()):  # access rights
            body.integer(), body.text(), body.text()
        return Created(path, data, body.flag())
    if kind in {_CREATE_CONTAINER, _CREATE_TTL}:
        return Created(body.text(), body.buffer(), is_ephemeral=False)
    if kind in _DELETES:
        return Deleted(body.text())
    if kind == _SET:
        return Changed(body.text(), body.buffer(), body.integer())
    return Closed() if kind == _CLOSE else None


class _Reader:
    """Jute, as far as it is met here."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def integer(self) -> int:
        (value,) = _LENGTH.unpack_from(self._data, self._at)
        self._at += _LENGTH.size
        return int(value)

    def flag(self) -> bool:
        self._at += 1
        return self._data[self._at - 1] != 0

    def buffer(self) -> bytes:
        size = max(0, self.integer())  # -1 is null
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.buffer().decode()
