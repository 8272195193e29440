"""What one Spark task does with its segments: write their rows, and say what became of each line.

The answer is small where lines are packed, and is what the rest of a batch is made of: which lines
there are, which are at fault, which were taken in before.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from broker_ctl.errors import CorruptRecord, PipelineError
from broker_ctl.pipeline.reading.files import TableFiles, day_of, open_filesystem
from broker_ctl.pipeline.reading.judging import Judged, judge
from broker_ctl.pipeline.reading.unpacking import Line, split, unpack

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


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A function for `DataFrame.mapInArrow`, of rows with file and path.

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
                    for file, content in contents_of(batch):
                        yield self._answer(files, file, content)
        except OSError as error:
            raise PipelineError(f"{self.root}: {error}") from error

    def _answer(self, files: TableFiles, file: str, content: Any) -> Any:
        left_out = self.left_out.get(file, _NONE)

        def add(line: Line, judged: Judged) -> None:
            if line.number not in left_out:
                files.add(judged)

        return batch_of(judge_segment(file, content, self.limit_bytes, add), _ARROW)


def contents_of(batch: Any) -> Iterator[tuple[str, Any]]:
    """Files and what is in them; those that were deleted meanwhile are left out."""
    for file, path in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        filesystem, name = open_filesystem(path)
        try:
            with filesystem.open_input_file(name) as opened:
                content = opened.read_buffer()
        except FileNotFoundError:
            continue
        yield file, content


def judge_segment(
    file: str, content: Any, limit_bytes: int, add: Callable[[Line, Judged], None]
) -> list[tuple[Any, ...]]:
    """Rows of `ANSWER` of a segment; ``add`` gets each line that has no fault."""
    try:
        data = unpack(file, memoryview(content), limit_bytes)
    except CorruptRecord as error:
        return [_of_segment(file, str(error))]
    rows = [_of_segment(file, None)]
    for line in split(data):
        judged = judge(line.data)
        rows.append(_of_line(file, line, judged))
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
