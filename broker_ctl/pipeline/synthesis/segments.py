"""Segments of a synthesised history: what `managers/segments.py` leaves behind, and no more."""

import gzip
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from broker_ctl.codec import encode
from broker_ctl.core.history.columns import Kind
from broker_ctl.core.history.lines import Stamp, line_of, packed_line_of
from broker_ctl.core.history.seen import ROWS_A_LINE
from broker_ctl.core.steps import batched

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
    """Lines of one cluster, of all its writers, in segments; equal rows give equal files.

    Attributes:
        files, lines: that were written.
        rows: by name of their kind.

    Args:
        directory: where; it must be there.
        cluster: its name, which the files begin with.
        seed: of the ids.
    """

    def __init__(self, directory: Path, cluster: str, seed: int) -> None:
        self._directory = directory
        self._cluster = cluster
        self._seed = seed
        self._counts: dict[str, int] = {}
        self._open = BytesIO()
        self._began_ms = 0
        self.files = 0
        self.lines = 0
        self.rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Half a history is none: it will be written again from its beginning.
        if kind is None:
            self._complete()

    def write(self, kind: Kind[Any], rows: Sequence[Any], moment: Moment) -> None:
        """Add rows of one moment."""
        self.rows[kind.name] = self.rows.get(kind.name, 0) + len(rows)
        for line in self._lines_of(kind, rows, partial(self._stamp, kind, moment)):
            if not self._open.tell():
                self._began_ms = moment.at_ms
            self.lines += 1
            self._open.write(encode(line) + b"\n")
            if self._open.tell() >= _MAX_BYTES:
                self._complete()

    @staticmethod
    def _lines_of(
        kind: Kind[Any], rows: Sequence[Any], stamp: Callable[[], Stamp]
    ) -> Iterator[Mapping[str, Any]]:
        if kind.is_packed:
            for some in batched(rows, ROWS_A_LINE):
                yield packed_line_of(stamp(), kind.to_columns(some))
        else:
            for row in rows:
                yield line_of(kind, stamp(), row)

    def _stamp(self, kind: Kind[Any], moment: Moment) -> Stamp:
        writer, at_ms, epoch, cycle = moment
        self._counts[writer] = count = self._counts.get(writer, 0) + 1
        line_id = f"{self._nonce(writer)}-{count}"
        return Stamp(
            *(kind.name, kind.format, line_id, self._cluster), *(writer, at_ms, epoch, cycle)
        )

    def _nonce(self, writer: str) -> str:
        named = f"{self._cluster} {writer} {self._seed}".encode()
        return hashlib.sha256(named).hexdigest()[:_NONCE_DIGITS]

    def _complete(self) -> None:
        if not self._open.tell():
            return
        self.files += 1
        stem = f"{self._cluster}-{self._began_ms:013d}-{self._nonce('')}-{self.files:06d}"
        beside = self._directory / f".{stem}.tmp"
        # Without the time, which would be another one at each attempt.
        beside.write_bytes(gzip.compress(self._open.getvalue(), _LEVEL, mtime=0))
        beside.replace(self._directory / f"{stem}.ndjson.gz")
        self._open = BytesIO()
