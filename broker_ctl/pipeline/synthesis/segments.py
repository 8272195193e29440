"""Segments of a synthesised history, as `broker/history.py` leaves them behind."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from broker_ctl.codec import encode
from broker_ctl.core.history.columns import RowKind
from broker_ctl.core.history.cycle_rows import ROWS_A_LINE
from broker_ctl.core.history.row_kinds import Stamp
from broker_ctl.core.model.counting import batched
from broker_ctl.pipeline.directories import escape

_MAX_BYTES: Final = 16 * 1024 * 1024
_LEVEL: Final = 3
_NONCE_DIGITS: Final = 16


class Moment(NamedTuple):
    """Who writes, and when it is so; see `core.history.lines.Stamp`."""

    writer: str
    at_ms: int
    epoch: int = 0
    cycle: int = 0


class SegmentFiles:
    """Lines of clusters that are run alike, each in segments of its own.

    What they say is the same, and is encoded once: it is what takes long. Names and ids differ.
    Equal rows give equal files.

    Attributes:
        rows: of one cluster, by name of their kind.

    Args:
        directory: where; it must be there.
        clusters: their names, which the files begin with.
        seed: of the ids.
    """

    def __init__(self, directory: Path, clusters: Sequence[str], seed: int) -> None:
        self._clusters = [_Cluster(directory, name, seed) for name in clusters]
        self.rows: dict[str, int] = {}

    @property
    def files(self) -> int:
        """That were written, of all clusters."""
        return sum(each.files for each in self._clusters)

    @property
    def lines(self) -> int:
        """That were written, of all clusters."""
        return sum(each.lines for each in self._clusters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Half a history is none: it will be written again from its beginning.
        if kind is None:
            for each in self._clusters:
                each.complete()

    def write(self, kind: RowKind[Any], rows: Sequence[Any], moment: Moment) -> None:
        """Add rows of one moment."""
        self.rows[kind.name] = self.rows.get(kind.name, 0) + len(rows)
        for row in _render_rows(kind, rows):
            body = encode(row)
            for each in self._clusters:
                each.write(kind, body, moment)


class _Cluster:
    """The segments of one of them, of all its writers."""

    def __init__(self, directory: Path, name: str, seed: int) -> None:
        self._directory = directory
        self._name = name
        self._seed = seed
        self._counts: dict[str, int] = {}
        self._nonces: dict[str, str] = {}
        self._open = bytearray()
        self._began_ms = 0
        self.files = 0
        self.lines = 0

    def write(self, kind: RowKind[Any], body: bytes, moment: Moment) -> None:
        """Add a line with the fields of ``body``, a JSON object that is not empty."""
        if not self._open:
            self._began_ms = moment.at_ms
        self.lines += 1
        stamp = encode(self._stamp(kind, moment)._asdict())
        self._open += stamp[:-1] + b"," + body[1:] + b"\n"
        if len(self._open) >= _MAX_BYTES:
            self.complete()

    def complete(self) -> None:
        """Write the open lines as a segment."""
        if not self._open:
            return
        self.files += 1
        stem = f"{escape(self._name)}-{self._began_ms:013d}-{self._nonce('')}-{self.files:06d}"
        beside = self._directory / f".{stem}.tmp"
        # Without the time, which would be another one at each attempt.
        beside.write_bytes(gzip.compress(self._open, _LEVEL, mtime=0))
        beside.replace(self._directory / f"{stem}.ndjson.gz")
        self._open = bytearray()

    def _stamp(self, kind: RowKind[Any], moment: Moment) -> Stamp:
        writer, at_ms, epoch, cycle = moment
        self._counts[writer] = count = self._counts.get(writer, 0) + 1
        line_id = f"{self._nonce(writer)}-{count}"
        return Stamp(*(kind.name, kind.format, line_id, self._name), *(writer, at_ms, epoch, cycle))

    def _nonce(self, writer: str) -> str:
        if writer not in self._nonces:
            named = f"{self._name} {writer} {self._seed}".encode()
            self._nonces[writer] = hashlib.sha256(named).hexdigest()[:_NONCE_DIGITS]
        return self._nonces[writer]


def _render_rows(kind: RowKind[Any], rows: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Of each line what stands behind its stamp."""
    if kind.is_packed:
        yield from (kind.to_columns(some) for some in batched(rows, ROWS_A_LINE))
    else:
        yield from map(kind.to_row, rows)
