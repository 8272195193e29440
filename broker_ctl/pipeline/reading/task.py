"""Tasks of workers: one reads a part of the segments, into files or into rows."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, DateType, LongType, StringType, StructField, StructType

from broker_ctl.core.history.row_kinds import KINDS
from broker_ctl.errors import CorruptRecord, PipelineError
from broker_ctl.pipeline.reading.files import (
    TableFiles,
    day_of,
    file_schema,
    open_filesystem,
    to_arrow,
)
from broker_ctl.pipeline.reading.judging import AHEAD, Judged, Line, is_ahead, judge, split, unpack
from broker_ctl.pipeline.tables import CLUSTER, DAY, STAMPED, schema_of

# What one Spark task does with its segments: write their rows, and say what became of each line.
#
# The answer is small where lines are packed, and is what the rest of a batch is made of: which
# lines there are, which are at fault, which were taken in before, and which files the rows are
# in. Of several attempts at a task Spark takes one answer, and with it the files of that attempt.


# Segments as tasks are given them: URI, and the name for who opens it; null, or those lines of it
# that are judged instead of all.
_SOME: Final = "array<struct<line: long, text: string>>"
GIVEN: Final = f"file string, path string, lines {_SOME}"
WHOLE: Final = ("file", "path", f"CAST(NULL AS {_SOME}) AS lines")
# The line of a row of `ANSWER` that names a file of the tables, which was written.
WRITTEN: Final = -1
# One row per line, and one per segment, whose line is 0. The columns after text are null where
# there is a fault, or no line.
ANSWER: Final = StructType(
    [
        StructField("file", StringType(), nullable=False),
        StructField("line", LongType(), nullable=False),
        StructField("fault", StringType()),
        StructField("text", StringType()),
        StructField("id", StringType()),
        StructField("kind", StringType()),
        StructField("rows", LongType()),
        StructField("dt", DateType()),
        StructField("cluster", StringType()),
    ]
)
_ARROW: Final = to_arrow_schema(ANSWER)
_NONE: Final[frozenset[int]] = frozenset()
# Nanoseconds.
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A function for `DataFrame.mapInArrow`, of rows of `GIVEN`.

    Attributes:
        root: of the tables.
        batch: that the rows belong to.
        limit_bytes: size of a segment after decompression; a larger one is not read.
        left_out: lines that are not written, by file: they were taken in before.
    """

    root: str
    batch: str
    limit_bytes: int
    left_out: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the answer of each segment."""
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        try:
            with TableFiles(self.root, self.batch, number) as files:
                for batch in batches:
                    for segment in segments_of(batch):
                        yield self._answer(files, segment)
            if files.paths:
                nothing = (None,) * (len(ANSWER) - 2)
                yield batch_of([(path, WRITTEN, *nothing) for path in files.paths], _ARROW)
        except OSError as error:
            raise PipelineError(f"{self.root}: {error}") from error

    def _answer(self, files: TableFiles, segment: "Segment") -> Any:
        left_out = self.left_out.get(segment.file, _NONE)

        def add(line: Line, judged: Judged) -> None:
            if line.number not in left_out:
                files.add(judged)

        return batch_of(judge_segment(segment, self.limit_bytes, add), _ARROW)


class Segment(NamedTuple):
    """What is judged of a segment.

    Attributes:
        file: its URI.
        content: all of it; None where there are only some of its lines.
        lines: these.
        written_ms: when it was written; if it is no more, now.
    """

    file: str
    content: Any
    lines: Sequence[Line]
    written_ms: int


def segments_of(batch: Any) -> Iterator[Segment]:
    """Segments of rows of `GIVEN`; those that were deleted meanwhile are left out."""
    for row in batch.to_pylist():
        filesystem, name = open_filesystem(row["path"])
        info = filesystem.get_file_info(name)
        if row["lines"] is not None:
            lines = [Line(each["line"], each["text"].encode()) for each in row["lines"]]
            written_ms = time.time_ns() if info.mtime_ns is None else info.mtime_ns
            yield Segment(row["file"], None, lines, written_ms // _MS)
            continue
        try:
            with filesystem.open_input_file(name) as opened:
                content = opened.read_buffer()
        except FileNotFoundError:
            continue
        yield Segment(row["file"], content, (), info.mtime_ns // _MS)


def judge_segment(
    segment: Segment, limit_bytes: int, add: Callable[[Line, Judged], None]
) -> list[tuple[Any, ...]]:
    """Rows of `ANSWER` of a segment; ``add`` gets each line that has no fault."""
    try:
        lines: Iterable[Line] = segment.lines
        if segment.content is not None:
            data = unpack(segment.file, memoryview(segment.content), limit_bytes)
            lines = split(data)
    except CorruptRecord as error:
        return [_of_segment(segment.file, str(error))]
    rows = [_of_segment(segment.file, None)]
    for line in lines:
        judged = judge(line.data)
        if judged.fault is None and is_ahead(judged, segment.written_ms):
            judged = Judged(judged.fields, AHEAD)
        rows.append(_of_line(segment.file, line, judged))
        if judged.fault is None:
            add(line, judged)
    return rows


def _of_segment(file: str, fault: str | None) -> tuple[Any, ...]:
    return (file, 0, fault, None, None, None, None, None, None)


def _of_line(file: str, line: Line, judged: Judged) -> tuple[Any, ...]:
    if judged.fault is not None:
        text = None if line.data is None else line.data.decode(errors="replace")
        return (file, line.number, judged.fault, text, None, None, 0, None, None)
    fields = judged.fields
    day = date.fromisoformat(day_of(fields["at_ms"]))
    stamped = (fields["id"], fields["kind"], judged.rows, day, fields["cluster"])
    return (file, line.number, None, None, *stamped)


def batch_of(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    """Rows as one batch of Arrow."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# What a Spark task does with its segments where Spark writes the tables: it gives out the rows.
#
# Rows of a kind, a day and a cluster go as one value, an Arrow stream: lines of all kinds stand
# in a segment, and a frame of Spark has one schema.


# As `ANSWER`; a row with content, whose line is -1, holds rows of a table instead.
ROWS: Final = StructType([*ANSWER.fields, StructField("content", BinaryType())])
_ROW_TASK_ARROW: Final = to_arrow_schema(ROWS)
_ROWS_AT_ONCE: Final = 32 * 1024
_PACKED: Final = pa.ipc.IpcWriteOptions(compression="zstd")

_Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RowTask:
    """A function for `DataFrame.mapInArrow`, of rows of `task.GIVEN`.

    Attributes:
        limit_bytes: size of a segment after decompression; a larger one is not read.
    """

    limit_bytes: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield `ROWS`."""
        waiting = _UnwrittenLines()
        for batch in batches:
            for segment in segments_of(batch):
                found = judge_segment(segment, self.limit_bytes, waiting.add)
                yield batch_of([(*row, None) for row in found], _ROW_TASK_ARROW)
                for rows in waiting.taken():
                    yield batch_of([rows], _ROW_TASK_ARROW)
        waiting.flush()
        for rows in waiting.taken():
            yield batch_of([rows], _ROW_TASK_ARROW)


class _UnwrittenLines:
    """Lines until there are enough of them for a value."""

    def __init__(self) -> None:
        self._lines: defaultdict[_Place, list[Judged]] = defaultdict(list)
        self._counts: defaultdict[_Place, int] = defaultdict(int)
        self._full: list[tuple[Any, ...]] = []

    def add(self, _: Line, judged: Judged) -> None:
        """Add the rows of a line."""
        fields = judged.fields
        place = (fields["kind"], day_of(fields["at_ms"]), fields["cluster"])
        self._lines[place].append(judged)
        self._counts[place] += judged.rows
        if self._counts[place] >= _ROWS_AT_ONCE:
            self._pack(place)

    def flush(self) -> None:
        """Whatever there is goes out."""
        for place in list(self._lines):
            self._pack(place)

    def taken(self) -> Iterator[tuple[Any, ...]]:
        """Values that are complete; each once."""
        while self._full:
            yield self._full.pop()

    def _pack(self, place: _Place) -> None:
        kind, day, cluster = place
        rows = to_arrow(KINDS[kind], file_schema(KINDS[kind]), self._lines.pop(place))
        self._counts.pop(place)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_PACKED) as stream:
            stream.write_batch(rows)
        content = sink.getvalue().to_pybytes()
        stamped = (None, kind, rows.num_rows, date.fromisoformat(day), cluster)
        self._full.append(("", -1, None, None, *stamped, content))


def rows_of(kind: str) -> StructType:
    """Columns of the rows that `unpack_rows` yields."""
    columns = [*schema_of(STAMPED).fields, *schema_of(KINDS[kind].columns).fields]
    return StructType([*columns, ANSWER[DAY], ANSWER[CLUSTER]])


def unpack_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a table; for `DataFrame.mapInArrow`, of day, cluster and content."""
    for batch in batches:
        for day, cluster, content in zip(*batch.columns, strict=True):
            for rows in pa.ipc.open_stream(content.as_buffer()):
                count = rows.num_rows
                yield rows.append_column(DAY, pa.repeat(day, count)).append_column(
                    CLUSTER, pa.repeat(cluster, count)
                )
