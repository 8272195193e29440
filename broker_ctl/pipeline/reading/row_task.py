"""What a Spark task does with its segments where Spark writes the tables: it gives out the rows.

Rows of a kind, a day and a cluster go as one value, an Arrow stream: lines of all kinds stand in a
segment, and a frame of Spark has one schema.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.pipeline.reading.columns import file_schema, to_arrow
from broker_ctl.pipeline.reading.files import day_of
from broker_ctl.pipeline.reading.judging import Judged
from broker_ctl.pipeline.reading.task import ANSWER, batch_of, judge_segment, segments_of
from broker_ctl.pipeline.reading.unpacking import Line
from broker_ctl.pipeline.tables import CLUSTER, DAY, STAMPED, schema_of

# As `ANSWER`; a row with content, whose line is -1, holds rows of a table instead.
ROWS: Final = StructType([*ANSWER.fields, StructField("content", BinaryType())])
_ARROW: Final = to_arrow_schema(ROWS)
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
        waiting = _Waiting()
        for batch in batches:
            for segment in segments_of(batch):
                found = judge_segment(segment, self.limit_bytes, waiting.add)
                yield batch_of([(*row, None) for row in found], _ARROW)
                for rows in waiting.taken():
                    yield batch_of([rows], _ARROW)
        waiting.flush()
        for rows in waiting.taken():
            yield batch_of([rows], _ARROW)


class _Waiting:
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
