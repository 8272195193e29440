"""Reads segments, and writes their records as columns into Parquet files."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from itertools import chain
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from broker_ctl.core.history.columns import Column, ColumnType, RowKind
from broker_ctl.core.history.row_kinds import KINDS
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.directories import escape
from broker_ctl.pipeline.reading.judging import Judged
from broker_ctl.pipeline.tables import BATCH, CLUSTER, DAY, STAMPED, schema_of

# From judged lines of one kind to Arrow columns of its table.


_ID: Final = "id"


def file_schema(kind: RowKind[Any]) -> Any:
    """The Arrow schema of a table's files: without the columns that are directories."""
    fields = [*schema_of(STAMPED).fields, *schema_of(kind.columns).fields]
    return to_arrow_schema(StructType(fields))


def to_arrow(kind: RowKind[Any], schema: Any, lines: Sequence[Judged]) -> Any:
    """The rows of some lines, which have no fault, as one batch of Arrow."""
    counts = [line.rows for line in lines]
    place = np.repeat(np.arange(len(lines)), counts)
    arrays = []
    for column in STAMPED:
        type_ = schema.field(column.name).type
        values = pa.array([line.fields[column.name] for line in lines], type_)
        arrays.append(values.take(pa.array(place)) if kind.is_packed else values)
    if kind.is_packed:
        arrays[schema.get_field_index(_ID)] = _numbered(lines)
    for column in kind.columns:
        values = _packed(column, lines) if kind.is_packed else _single(column, lines)
        arrays.append(_array(values, schema.field(column.name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbered(lines: Sequence[Judged]) -> Any:
    """Ids of the rows of packed lines."""
    return pa.array(
        [f"{head}{row}" for line in lines for head in (f"{line.fields[_ID]}/",)
         for row in range(line.rows)]
    )  # fmt: skip


def _single(column: Column, lines: Sequence[Judged]) -> list[Any]:
    if column.since <= 1:
        return [line.fields.get(column.name) for line in lines]
    return [
        column.default if _lacks(column, line.fields) else line.fields.get(column.name)
        for line in lines
    ]


def _packed(column: Column, lines: Sequence[Judged]) -> list[Any]:
    lists = (
        [column.default] * line.rows if _lacks(column, line.fields) else line.fields[column.name]
        for line in lines
    )
    return list(chain.from_iterable(lists))


def _lacks(column: Column, fields: Mapping[str, Any]) -> bool:
    """Whether the format of the line is older than the column."""
    return bool(column.since > fields["format"])


def _array(values: list[Any], type_: Any) -> Any:
    try:
        return pa.array(values, type_)
    except pa.ArrowInvalid:
        # Arrow refuses integers that no double is equal to.
        return pa.array([None if each is None else float(each) for each in values], type_)


# Files of the tables as a worker writes them, by pyarrow: ten times as fast as Spark's writer.
#
# Each attempt at a task has names of its own: two may live at once, on an executor that was
# thought lost or as Spark's speculation. The files of a batch are those that are named by the
# attempts whose answers Spark took, see `task`. A file gets its name when all files of the
# attempt are complete.


# Rows that are turned into columns at once.
_ROWS_AT_ONCE: Final = 32 * 1024
# Hadoop's name of a file system that Arrow calls by another.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}

_DAY_MS: Final = 86_400_000


class _Place(NamedTuple):
    kind: str
    day: str
    cluster: str


def open_filesystem(location: str) -> tuple[Any, str]:
    """The file system of a location, and the path in it.

    Raises:
        PipelineError: pyarrow has no such file system, or cannot reach it.
    """
    scheme, colon, rest = location.partition(":")
    try:
        if not colon or location.startswith("/"):
            return fs.LocalFileSystem(), location
        if scheme == "file":
            return fs.LocalFileSystem(), f"/{rest.lstrip('/')}"
        found, path = fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}:{rest}")
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{location}: pyarrow cannot write there: {error}") from error
    return found, path


class TableFiles:
    """The files of one task; a context that completes them, or removes them after an error.

    Args:
        root: of the tables.
        batch: that the rows belong to.
        number: of the task in the batch.

    Attributes:
        paths: of the files, from the root on; they are complete when the context has ended.
    """

    def __init__(self, root: str, batch: str, number: int) -> None:
        self._filesystem, self._root = open_filesystem(root)
        self._batch = batch
        self._name = f"part-{number:05}-{uuid4().hex}.parquet"
        self.paths: list[str] = []
        self._waiting: defaultdict[_Place, list[Judged]] = defaultdict(list)
        self._rows: defaultdict[_Place, int] = defaultdict(int)
        self._writers: dict[_Place, Any] = {}

    def add(self, line: Judged) -> None:
        """Add the rows of a line that has no fault."""
        fields = line.fields
        place = _Place(fields["kind"], day_of(fields["at_ms"]), fields["cluster"])
        self._waiting[place].append(line)
        self._rows[place] += line.rows
        if self._rows[place] >= _ROWS_AT_ONCE:
            self._write(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for place in list(self._waiting):
                    self._write(place)
        finally:
            for writer in self._writers.values():
                writer.close()
        for place in self._writers:
            if kind is None:
                path = f"{_folder(place, self._batch)}/{self._name}"
                self._filesystem.move(self._unfinished(place), f"{self._root}/{path}")
                self.paths.append(path)
            else:
                self._filesystem.delete_file(self._unfinished(place))

    def _write(self, place: _Place) -> None:
        lines = self._waiting.pop(place)
        self._rows.pop(place)
        if place not in self._writers:
            self._writers[place] = self._open(place)
        writer = self._writers[place]
        writer.write_batch(to_arrow(KINDS[place.kind], writer.schema, lines))

    def _open(self, place: _Place) -> Any:
        path = self._unfinished(place)
        self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        kind = KINDS[place.kind]
        return pq.ParquetWriter(
            path,
            file_schema(kind),
            filesystem=self._filesystem,
            compression="zstd",
            use_dictionary=_with_few_values(kind),
            # Ids of neighbours begin alike.
            column_encoding={_ID: "DELTA_BYTE_ARRAY"},
        )

    def _unfinished(self, place: _Place) -> str:
        # Readers of a table leave out what begins with a dot.
        return f"{self._root}/{_folder(place, self._batch)}/.{self._name}.tmp"


def _folder(place: _Place, batch: str) -> str:
    cluster = escape(place.cluster)
    return f"{place.kind}/{DAY}={place.day}/{CLUSTER}={cluster}/{BATCH}={batch}"


def day_of(at_ms: int) -> str:
    """The day of a time, UTC, as ISO 8601 has it."""
    return _name_day(at_ms // _DAY_MS)


@cache
def _name_day(number: int) -> str:
    """A day by its number since 1970; from 2000 to 2100 there are not many."""
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()


def _with_few_values(kind: RowKind[Any]) -> list[str]:
    texts = [column.name for column in kind.columns if column.type is ColumnType.TEXT]
    return ["writer", "at_ms", "epoch", "cycle", *texts]
