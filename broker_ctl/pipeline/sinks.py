"""Writes batches of segments to the tables of a warehouse, each atomically and exactly once.

The name of a batch is a digest of its files. A batch is committed by its row in `tables.BATCHES`,
which is written last. If the process dies before that, the stream delivers the same files again,
and the next start deletes their uncommitted rows; if it dies after that, the batch is recognized by
its name. The name does not depend on the stream's checkpoint: with a new checkpoint all files come
again, perhaps in other batches, and then their lines are recognized by their ids.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Self

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from broker_ctl.pipeline import tables
from broker_ctl.pipeline.caching import caching
from broker_ctl.pipeline.reading.task import ANSWER, SegmentTask
from broker_ctl.pipeline.reading.unpacking import UNREADABLE, too_large
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


class _Vanished(Exception):
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
        self._committed: set[str] = set()
        self.read_batches()

    def read_batches(self) -> None:
        """Learn which batches there are."""
        rows = tables.read_batch_rows(self._spark, self._root)
        # A batch that was merged into another one is known, too.
        self._known = {row.batch for row in rows}
        self._committed = {row.batch for row in tables.select_counted(rows)}

    def sweep(self) -> None:
        """Delete rows of batches that do not count."""
        tables.delete_batches(self._spark, self._root, lambda name: name not in self._committed)

    def take_in(self, listed: DataFrame, _: int) -> None:
        """Write one batch of the stream of `sources.segments`; for ``foreachBatch``."""
        files = listed.select("file", "length").collect()
        name = name_batch((each["file"], each["length"]) for each in files)
        if not files or name in self._known:
            return
        # A segment that is deleted meanwhile is left out in the next round.
        gone: frozenset[str] = frozenset()
        while True:
            try:
                self._write(listed, files, name, gone)
            except _Vanished as error:
                # A task that was run again may have written rows of it the first time.
                tables.delete_batches(self._spark, self._root, lambda batch: batch == name)
                gone |= error.files
            else:
                return

    def _write(
        self, listed: DataFrame, files: Sequence[Row], name: str, gone: frozenset[str]
    ) -> None:
        """Write and commit a batch, without those segments that are gone.

        Raises:
            _Vanished: more of them are gone; nothing is committed.
        """
        there = listed.where(~F.col("file").isin(sorted(gone)))
        wanted = {each["file"] for each in files if each["length"] <= self._segment_bytes} - gone
        # The rows are written here; what is kept of the lines is narrow.
        with caching(self._load(there, name, {})) as every:
            counted = _count_rows(every)
            if sum(each["lines"] for each in counted if each["is_segment"]) < len(wanted):
                raise _Vanished(wanted, every)
            repeated = _find_repeated(every, self._earlier(counted))
            if repeated:
                self._write_without(repeated, there, name, wanted)
            row = _row(name, len(files), counted, _Total.of(repeated))
            if row.taken_lines:
                good = every.where("kind IS NOT NULL").select(*_NARROW)
                self._append(name, self._leave_out(good, repeated), LINES)
            if row.faulty_lines or row.unreadable:
                self._append(name, self._faulty(every, files), QUARANTINE)
        # This commits the batch.
        batch = self._spark.createDataFrame([row], BATCHES.schema)
        tables.append(batch.coalesce(1), self._root, BATCHES)
        self._committed.add(name)
        self._known.add(name)
        self._on_batch(row)

    def _load(
        self, listed: DataFrame, name: str, left_out: Mapping[str, frozenset[int]]
    ) -> DataFrame:
        """Write the rows of the segments; says what became of each line, see `ANSWER`."""
        task = SegmentTask(self._root, name, self._segment_bytes, left_out)
        # A file that is larger as it is need not be read.
        small = listed.where(F.col("length") <= self._segment_bytes).select("file", "path")
        return small.mapInArrow(task, ANSWER)

    def _leave_out(self, lines: DataFrame, repeated: Sequence[Row]) -> DataFrame:
        """The other lines."""
        if not repeated:
            return lines
        again = self._spark.createDataFrame(
            [tuple(row[name] for name in _PLACE) for row in repeated], "file string, line long"
        )
        return lines.join(F.broadcast(again), [*_PLACE], "left_anti")

    def _write_without(
        self,
        repeated: Sequence[Row],
        listed: DataFrame,
        name: str,
        wanted: AbstractSet[str],
    ) -> None:
        """Write the rows of a batch again, without those of repeated lines, which are rare."""
        left_out: dict[str, set[int]] = {}
        for file, line, _ in repeated:
            left_out.setdefault(file, set()).add(line)
        tables.delete_batches(self._spark, self._root, lambda batch: batch == name)
        frozen = {file: frozenset(lines) for file, lines in left_out.items()}
        with caching(self._load(listed, name, frozen)) as every:
            if every.where("line = 0").count() < len(wanted):
                raise _Vanished(wanted, every)

    def _earlier(self, counted: Iterable[Row]) -> DataFrame:
        """Ids of all ingested lines of the days of these lines."""
        days = {each[DAY] for each in counted if each["kind"] is not None}
        known = tables.read_batches(self._spark, self._root, LINES, self._committed)
        return known.where(F.col(DAY).isin(sorted(days))).select("id")

    def _append(self, name: str, rows: DataFrame, table: tables.Table) -> None:
        tables.append(rows.coalesce(1).withColumn(BATCH, F.lit(name)), self._root, table)

    def _faulty(self, every: DataFrame, files: Sequence[Row]) -> DataFrame:
        """Rows of the quarantine: lines, and files without a readable line."""
        found = every.where("fault IS NOT NULL").select(*_PLACE, "fault", "text")
        unread = self._spark.createDataFrame(
            [(each["file"], 0, self._fault_of(each), None) for each in files],
            "file string, line long, fault string, text string",
        ).join(every.select("file").distinct(), "file", "left_anti")
        return found.unionByName(unread)

    def _fault_of(self, segment: Row) -> str:
        """Of a segment that was not read at all."""
        limit = self._segment_bytes
        return too_large(limit) if segment["length"] > limit else UNREADABLE


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
