"""What one Spark task does with its segments: write their rows, and say what became of each line.

The answer is small where lines are packed, and is what the rest of a batch is made of: which lines
there are, which are at fault, which were taken in before, and which files the rows are in. Of
several attempts at a task Spark takes one answer, and with it the files of that attempt.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from broker_ctl.errors import CorruptRecord, PipelineError
from broker_ctl.pipeline.reading.files import TableFiles, day_of, open_filesystem
from broker_ctl.pipeline.reading.judging import AHEAD, Judged, is_ahead, judge
from broker_ctl.pipeline.reading.unpacking import Line, split, unpack

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
