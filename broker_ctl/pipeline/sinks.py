"""Writes batches of segments to the tables of a warehouse, each atomically and exactly once.

The name of a batch is a digest of its files. A batch is committed by its row in `tables.BATCHES`,
which is written last. If the process dies before that, the stream delivers the same files again,
and the next start deletes their uncommitted rows; if it dies after that, the batch is recognized by
its name. The name does not depend on the stream's checkpoint: with a new checkpoint all files come
again, perhaps in other batches, and then their lines are recognized by their ids.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from broker_ctl.pipeline import tables
from broker_ctl.pipeline.reading.judging import UNREADABLE, too_large
from broker_ctl.pipeline.reading.task import ANSWER, WHOLE, WRITTEN, SegmentTask
from broker_ctl.pipeline.session import caching
from broker_ctl.pipeline.settings import PipelineSettings
from broker_ctl.pipeline.tables import BATCH, BATCHES, DAY, LINES, QUARANTINE, BatchRow, name_batch

_PLACE: Final = ("file", "line")
# Columns that identify a parsed line, without its content.
_NARROW: Final = ("id", "kind", *_PLACE, "rows", DAY, "cluster")


class _Total(NamedTuple):
    lines: int
    rows: int

    @classmethod
    def of(cls, lines: Sequence[Row]) -> Self:
        """Of some lines."""
        return cls(len(lines), sum(row["rows"] for row in lines))


@dataclass(frozen=True, slots=True)
class Given:
    """What becomes a batch.

    Attributes:
        name: of the batch.
        rows: of `task.GIVEN`.
        wanted: URIs of the segments in them.
        unread: those that are not read at all, each with its fault.
    """

    name: str
    rows: DataFrame
    wanted: frozenset[str]
    unread: Mapping[str, str]

    def without(self, gone: frozenset[str]) -> Self:
        """The same, where some segments were deleted."""
        rows = self.rows.where(~F.col("file").isin(sorted(gone)))
        unread = {**self.unread, **dict.fromkeys(sorted(gone), UNREADABLE)}
        return replace(self, rows=rows, wanted=self.wanted - gone, unread=unread)


class _SegmentsVanished(Exception):
    """Segments were deleted before they were read.

    Attributes:
        files: URIs of them.
    """

    def __init__(self, wanted: AbstractSet[str], every: DataFrame) -> None:
        super().__init__()
        answered = every.where("line = 0").select("file").collect()
        self.files = frozenset(wanted - {row["file"] for row in answered})


class Sink:
    """The one writer of a warehouse.

    Args:
        spark: the session.
        root: directory of the tables.
        on_batch: hears of each batch when it counts.
        segment_bytes: size of a segment after decompression; a larger one goes to quarantine.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        on_batch: Callable[[BatchRow], None],
        segment_bytes: int = PipelineSettings().segment_bytes,
    ) -> None:
        self._spark = spark
        self._root = root
        self._on_batch = on_batch
        self._segment_bytes = segment_bytes
        self._known: set[str] = set()
        self._committed: dict[str, BatchRow] = {}
        self.read_batches()

    def read_batches(self) -> None:
        """Learn which batches there are."""
        rows = tables.read_batch_rows(self._spark, self._root)
        # A batch that was merged into another one is known, too.
        self._known = {row.batch for row in rows}
        self._committed = {row.batch: row for row in tables.select_counted(rows)}

    def sweep(self) -> None:
        """Delete files that no batch lists that counts."""
        tables.delete_unlisted(self._spark, self._root, self._committed.values())

    def take_in(self, listed: DataFrame, _: int) -> None:
        """Write one batch of the stream of `sources.segments`; for ``foreachBatch``."""
        files = listed.select("file", "length").collect()
        name = name_batch((each["file"], each["length"]) for each in files)
        if not files or name in self._known:
            return
        limit = self._segment_bytes
        # A file that is larger as it is need not be read.
        large = {each["file"]: too_large(limit) for each in files if each["length"] > limit}
        rows = listed.where(F.col("length") <= limit).selectExpr(*WHOLE)
        wanted = frozenset(each["file"] for each in files) - large.keys()
        row = self.write(Given(name, rows, wanted, large))
        self.commit([row])
        self._on_batch(row)

    def batches(self) -> list[BatchRow]:
        """Those that count."""
        return [*self._committed.values()]

    def commit(self, rows: Sequence[BatchRow]) -> None:
        """Let batches count, all at once."""
        batches = self._spark.createDataFrame(rows, BATCHES.schema)
        tables.append(batches.coalesce(1), self._root, BATCHES)
        gone = {name for row in rows for name in row.replaces or ()}
        kept = {name: row for name, row in self._committed.items() if name not in gone}
        self._committed = kept | {row.batch: row for row in rows}
        self._known |= {row.batch for row in rows}

    def write(self, given: Given) -> BatchRow:
        """Write a batch, which does not count yet, without segments that are deleted meanwhile."""
        while True:
            try:
                return self._write(given)
            except _SegmentsVanished as error:
                self.sweep()
                given = given.without(error.files)

    def _write(self, given: Given) -> BatchRow:
        """Write a batch.

        Raises:
            _SegmentsVanished: some of its segments are gone.
        """
        name = given.name
        # The rows are written here; what is kept of the lines is narrow.
        with caching(self._load(given, {})) as answers:
            every = answers.where(F.col("line") != WRITTEN)
            counted = _count_rows(every)
            if sum(each["lines"] for each in counted if each["is_segment"]) < len(given.wanted):
                raise _SegmentsVanished(given.wanted, every)
            repeated = _find_repeated(every, self._earlier(counted))
            written = self._write_without(repeated, given) if repeated else _files_in(answers)
            segments = len(given.wanted) + len(given.unread)
            row = _row(name, segments, counted, _Total.of(repeated))
            if row.taken_lines:
                good = every.where("kind IS NOT NULL").select(*_NARROW)
                written += self.append(name, self._leave_out(good, repeated), LINES)
            if row.faulty_lines or row.unreadable:
                written += self.append(name, self._faulty(every, given), QUARANTINE)
        return row._replace(files=tuple(written))

    def _load(self, given: Given, left_out: Mapping[str, frozenset[int]]) -> DataFrame:
        """Write the rows of the segments; says what became of each line, see `ANSWER`."""
        task = SegmentTask(self._root, given.name, self._segment_bytes, left_out)
        return given.rows.mapInArrow(task, ANSWER)

    def _leave_out(self, lines: DataFrame, repeated: Sequence[Row]) -> DataFrame:
        """The other lines."""
        if not repeated:
            return lines
        again = self._spark.createDataFrame(
            [tuple(row[name] for name in _PLACE) for row in repeated], "file string, line long"
        )
        return lines.join(F.broadcast(again), [*_PLACE], "left_anti")

    def _write_without(self, repeated: Sequence[Row], given: Given) -> list[str]:
        """Write the rows of a batch again, without those of repeated lines, which are rare."""
        left_out: dict[str, set[int]] = {}
        for file, line, _ in repeated:
            left_out.setdefault(file, set()).add(line)
        # What was written first has lines of others, and is not of the batch.
        self.sweep()
        frozen = {file: frozenset(lines) for file, lines in left_out.items()}
        with caching(self._load(given, frozen)) as every:
            if every.where("line = 0").count() < len(given.wanted):
                raise _SegmentsVanished(given.wanted, every)
            return _files_in(every)

    def _earlier(self, counted: Iterable[Row]) -> DataFrame:
        """Ids of all ingested lines of the days of these lines."""
        days = {each[DAY] for each in counted if each["kind"] is not None}
        known = tables.read_batches(self._spark, self._root, LINES, self._committed.values())
        return known.where(F.col(DAY).isin(sorted(days))).select("id")

    def append(self, name: str, rows: DataFrame, table: tables.Table) -> list[str]:
        """Write rows of a batch; the files that they are in."""
        tables.append(rows.coalesce(1).withColumn(BATCH, F.lit(name)), self._root, table)
        return tables.stored_files(self._spark, self._root, table, {name})

    def _faulty(self, every: DataFrame, given: Given) -> DataFrame:
        """Rows of the quarantine: lines, and files without a readable line."""
        found = every.where("fault IS NOT NULL").select(*_PLACE, "fault", "text")
        unread = [(file, 0, fault, None) for file, fault in given.unread.items()]
        return found.unionByName(
            self._spark.createDataFrame(unread, "file string, line long, fault string, text string")
        )


def _files_in(answers: DataFrame) -> list[str]:
    """The files that the rows are in. Asked once: of one task the answers of two may be kept."""
    return [row["file"] for row in answers.where(F.col("line") == WRITTEN).select("file").collect()]


def _count_rows(every: DataFrame) -> list[Row]:
    """Counts of segments, and of lines and their rows by day and kind."""
    is_segment = F.col("line") == 0
    # Null is the kind of segments and of lines with a fault.
    groups = every.groupBy(
        is_segment.alias("is_segment"), F.col("fault").isNotNull().alias("is_faulty"), DAY, "kind"
    )
    return groups.agg(F.count("*").alias("lines"), F.sum("rows").alias("rows")).collect()


def _find_repeated(every: DataFrame, earlier: DataFrame) -> list[Row]:
    """Lines whose id was ingested before, or occurs in an earlier line of this batch."""
    good = every.where("kind IS NOT NULL")
    ids = good.selectExpr("id", "false AS known").unionAll(
        earlier.selectExpr("id", "true AS known")
    )
    again = ids.groupBy("id").agg(F.count("*").alias("times"), F.max("known").alias("known"))
    # Of what was ingested before alone, no two lines have one id.
    again = again.where("times > 1").select("id", "known")
    # Ids are many, and most often none occurs again: the rest need not be planned.
    if not again.count():
        return []
    # If two files have the same line, the first one is used, at every attempt.
    number = F.row_number().over(Window.partitionBy("id").orderBy(*_PLACE))
    found = good.join(again, "id").withColumn("number", number)
    return found.where("known OR number > 1").select(*_PLACE, "rows").collect()


def _row(name: str, segments: int, counted: Sequence[Row], left_out: _Total) -> BatchRow:
    """The row of a batch."""
    read = sum(each["lines"] for each in counted if each["is_segment"] and not each["is_faulty"])
    lines = [each for each in counted if not each["is_segment"]]
    good = [each for each in lines if not each["is_faulty"]]
    count, count_good = (sum(each["lines"] for each in some) for some in (lines, good))
    return BatchRow(
        batch=name,
        segments=segments,
        unreadable=segments - read,
        lines=count,
        faulty_lines=count - count_good,
        repeated_lines=left_out.lines,
        taken_lines=count_good - left_out.lines,
        rows=sum(each["rows"] for each in good) - left_out.rows,
    )
