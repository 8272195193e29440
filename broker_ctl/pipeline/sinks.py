"""Writes batches of segments to the tables of a warehouse, each atomically and exactly once.

The name of a batch is a digest of its files. A batch is committed by its row in `tables.BATCHES`,
which is written last. If the process dies before that, the stream delivers the same files again,
and the next start deletes their uncommitted rows; if it dies after that, the batch is recognized by
its name. The name does not depend on the stream's checkpoint: with a new checkpoint all files come
again, perhaps in other batches, and then their lines are recognized by their ids.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.caching import caching
from broker_ctl.pipeline.filesystem import delete, glob_files, is_larger_unpacked
from broker_ctl.pipeline.parsing import parse_lines, rows_of
from broker_ctl.pipeline.settings import PipelineSettings
from broker_ctl.pipeline.sources import lines
from broker_ctl.pipeline.spark_errors import translate_spark_errors
from broker_ctl.pipeline.tables import BATCH, BATCHES, DAY, HISTORY, LINES, QUARANTINE, BatchRow

_NAME_DIGITS: Final = 16
_PLACE: Final = ("file", "line")
# Of gzip: a small file cannot unpack to more.
_MAX_RATIO: Final = 1_032
_UNREADABLE: Final = "cannot be read"
# Columns that identify a parsed line, without its content.
_NARROW: Final = ("id", "kind", *_PLACE, "rows", DAY, "cluster")


class _Total(NamedTuple):
    lines: int
    rows: int


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
        self._committed = set(tables.read_committed_batches(spark, root))
        self.failure: PipelineError | None = None

    def sweep(self) -> None:
        """Delete rows of uncommitted batches."""
        for table in tables.BATCHED:
            pattern = "/".join(f"{name}=*" for name in table.partitions)
            for path in glob_files(self._spark, tables.path_of(self._root, table), pattern):
                if path.rpartition(f"{BATCH}=")[2] not in self._committed:
                    delete(self._spark, path)

    def take_in(self, listed: DataFrame, _: int) -> None:
        """Write one batch of the stream of `sources.segments`; for ``foreachBatch``."""
        try:
            with translate_spark_errors("a batch of segments"):
                self._take_in(listed.collect())
        except PipelineError as error:
            # Spark rewords errors that are raised here.
            self.failure = error
            raise

    def _take_in(self, listed: Sequence[Row]) -> None:
        name = name_of(listed)
        if not listed or name in self._committed:
            return
        # Of each file, the fault if no line of it is read.
        faults = {each["file"]: self._fault_of(each) for each in listed}
        paths = [each["path"] for each in listed if faults[each["file"]] == _UNREADABLE]
        with caching(parse_lines(lines(self._spark, paths))) as every:
            counted = _count_rows(every)
            with caching(_find_repeated(every, self._earlier(counted))) as repeated:
                self._write(name, faults, every, repeated, counted)

    def _fault_of(self, segment: Row) -> str:
        limit = self._segment_bytes
        if segment["length"] * _MAX_RATIO <= limit:
            return _UNREADABLE
        is_larger = is_larger_unpacked(self._spark, segment["path"], limit)
        return f"larger than {limit} bytes after decompression" if is_larger else _UNREADABLE

    def _earlier(self, counted: Iterable[Row]) -> DataFrame:
        """Ids of all ingested lines of the days of these lines."""
        days = {each[DAY] for each in counted if not each["is_faulty"]}
        known = tables.read_batches(self._spark, self._root, LINES, self._committed)
        return known.where(F.col(DAY).isin(sorted(days))).select("id", DAY)

    def _write(
        self,
        name: str,
        faults: Mapping[str, str],
        every: DataFrame,
        repeated: DataFrame,
        counted: Sequence[Row],
    ) -> None:
        left_out = _totals(repeated)
        row, taken = _row(name, len(faults), counted, left_out)
        good = every.where("fault IS NULL")
        if left_out:
            good = good.join(F.broadcast(repeated.select(*_PLACE)), [*_PLACE], "left_anti")
        for kind in KINDS.values():
            if kind.name in taken:
                rows = rows_of(kind, good)
                # Packed lines have many rows; the others are few, and fit one file.
                rows = rows if kind.is_packed else rows.coalesce(1)
                self._append(name, rows, HISTORY[kind.name])
        self._append(name, good.select(*_NARROW).coalesce(1), LINES)
        if row.faulty_lines or row.unreadable:
            self._append(name, self._faulty(every, faults).coalesce(1), QUARANTINE)
        # This commits the batch.
        batch = self._spark.createDataFrame([row], BATCHES.schema)
        tables.append(batch.coalesce(1), self._root, BATCHES)
        self._committed.add(name)
        self._on_batch(row)

    def _append(self, name: str, rows: DataFrame, table: tables.Table) -> None:
        tables.append(rows.withColumn(BATCH, F.lit(name)), self._root, table)

    def _faulty(self, every: DataFrame, faults: Mapping[str, str]) -> DataFrame:
        """Rows of the quarantine: lines, and files without a readable line."""
        faulty = every.where("fault IS NOT NULL").select(*_PLACE, "fault", "text")
        files = self._spark.createDataFrame([*faults.items()], "file string, fault string")
        unread = files.join(every.select("file").distinct(), "file", "left_anti")
        whole = unread.select(
            "file",
            F.lit(0).alias("line"),
            "fault",
            F.lit(None).cast("string").alias("text"),
        )
        return faulty.unionByName(whole)


def name_of(listed: Sequence[Row]) -> str:
    """Name of a batch: a digest of its files, independent of their order."""
    names = sorted(f"{each['file']} {each['length']}" for each in listed)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:_NAME_DIGITS]


def _count_rows(every: DataFrame) -> list[Row]:
    """Counts of lines and their rows by file, day and kind; lines with a fault separately."""
    is_faulty = F.col("fault").isNotNull()
    # The kind of a faulty line may have any value.
    kind = F.when(~is_faulty, F.col("kind")).alias("kind")
    groups = every.groupBy("file", DAY, kind, is_faulty.alias("is_faulty"))
    return groups.agg(F.count("*").alias("lines"), F.sum("rows").alias("rows")).collect()


def _find_repeated(every: DataFrame, earlier: DataFrame) -> DataFrame:
    """Lines whose id was ingested before, or occurs in an earlier line of this batch."""
    good = every.where("fault IS NULL").select("id", DAY, *_PLACE, "kind", "rows")
    # If two files have the same line, the first one is used, at every attempt.
    number = F.row_number().over(Window.partitionBy("id").orderBy(*_PLACE))
    known = earlier.withColumn("known", F.col("id"))
    found = good.join(known, ["id", DAY], "left").withColumn("number", number)
    again = found.where("known IS NOT NULL OR number > 1")
    return again.select(*_PLACE, "kind", "rows")


def _totals(repeated: DataFrame) -> dict[str, _Total]:
    """Of some lines, by kind."""
    found = repeated.groupBy("kind").agg(F.count("*"), F.sum("rows")).collect()
    return {kind: _Total(lines, rows) for kind, lines, rows in found}


def _row(
    name: str, segments: int, counted: Sequence[Row], left_out: Mapping[str, _Total]
) -> tuple[BatchRow, dict[str, _Total]]:
    """The row of a batch: its counts, by kind without those of 0."""
    good = [each for each in counted if not each["is_faulty"]]
    taken: dict[str, _Total] = {}
    for kind in sorted({each["kind"] for each in good}):
        lines, rows = left_out.get(kind, _Total(0, 0))
        of_kind = [each for each in good if each["kind"] == kind]
        total = _Total(
            sum(each["lines"] for each in of_kind) - lines,
            sum(each["rows"] for each in of_kind) - rows,
        )
        if total.lines:
            taken[kind] = total
    found = len({each["file"] for each in counted})
    count = sum(each["lines"] for each in counted)
    row = BatchRow(
        batch=name,
        segments=segments,
        unreadable=segments - found,
        lines=count,
        faulty_lines=count - sum(each["lines"] for each in good),
        repeated_lines=sum(total.lines for total in left_out.values()),
        taken_lines=sum(total.lines for total in taken.values()),
        rows=sum(total.rows for total in taken.values()),
    )
    return row, taken
