"""Writes records into tables of an open format, by inserts and by merges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from broker_ctl.pipeline.open_tables.tables import OpenTables, columns_of
from broker_ctl.pipeline.reading.judging import UNREADABLE, too_large
from broker_ctl.pipeline.reading.task import ROWS, WHOLE, RowTask, rows_of, unpack_rows
from broker_ctl.pipeline.session import caching
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.sources import list_segments
from broker_ctl.pipeline.tables import (
    BATCH,
    BATCHES,
    CLUSTER,
    DAY,
    HISTORY,
    LINES,
    QUARANTINE,
    SEGMENTS,
    BatchRow,
    Table,
    name_batch,
)

# Adds the rows that a table has not got yet, whatever other writers do meanwhile.
#
# The format's own isolation does it: a commit whose merge has not seen the rows of another one is
# refused, and the merge is made again.


# Iceberg makes a plain append of a merge that only inserts, and does not look for rows that came
# meanwhile. A clause that is never true makes it a merge.
_NEVER: Final = "WHEN MATCHED AND new.`{key}` IS NULL THEN DELETE"
_MOST_DAYS: Final = 400


def merge(history: OpenTables, table: Table, rows: DataFrame) -> None:
    """Add rows with keys that the table does not have.

    Args:
        history: the tables.
        table: the one that is written to; created or given new columns if needed.
        rows: with all its columns, and its batch.

    Raises:
        PipelineError: other writers came first every time.
    """
    history.ensure(table)
    name = history.name_of(table)
    view = f"new_{uuid4().hex}"
    key = key_of(table)
    rows.dropDuplicates([*key]).createOrReplaceTempView(view)
    wanted = _condition(table, key, rows)
    columns = [f"`{field.name}`" for field in columns_of(table).fields]
    never = _NEVER.format(key=key[0]) if history.format is Format.ICEBERG else ""
    statement = (
        f"MERGE INTO {name} AS old USING {view} AS new ON {wanted} {never}"  # noqa: S608  no values
        f" WHEN NOT MATCHED THEN INSERT ({', '.join(columns)})"
        f" VALUES ({', '.join(f'new.{column}' for column in columns)})"
    )

    def commit() -> None:
        if history.format is Format.ICEBERG:
            # Its catalog remembers a table as it was; Delta reads the newest log.
            history.spark.catalog.refreshTable(name)
        history.spark.sql(statement)

    try:
        history.commit(table, commit)
    finally:
        history.spark.catalog.dropTempView(view)


def key_of(table: Table) -> tuple[str, ...]:
    """What is unique in an open table: lines and their rows have an id."""
    return ("id",) if table.name in {*HISTORY, LINES.name} else table.key


def _condition(table: Table, key: tuple[str, ...], rows: DataFrame) -> str:
    same = [f"old.`{name}` = new.`{name}`" for name in key]
    if DAY in table.partitions:
        same += [f"old.`{name}` = new.`{name}`" for name in (DAY, CLUSTER)]
        days = [row[0] for row in rows.select(DAY).distinct().limit(_MOST_DAYS + 1).collect()]
        if days and len(days) <= _MOST_DAYS:
            # Files of other days need not be read.
            listed = ", ".join(f"DATE'{day}'" for day in sorted(days))
            same.append(f"old.`{DAY}` IN ({listed})")
    return " AND ".join(same)


# Takes segments in to open tables: each table gets the rows that it has not got yet.
#
# A batch is several commits, one to each table. Each is a merge by the key of the rows: made
# again, after a kill or beside another ingest, it adds nothing twice. The segments are recorded
# last; before that, they are taken in again.


_PLACE: Final = ("file", "line")
_LINE: Final = ("id", "kind", *_PLACE, "rows", DAY, CLUSTER)


class OpenSink:
    """One of the writers of a history; there may be others at the same time.

    Args:
        history: its tables.
        on_batch: hears of each batch when its segments are recorded.
        segment_bytes: size of a segment after decompression; a larger one goes to quarantine.
    """

    def __init__(
        self,
        history: OpenTables,
        on_batch: Callable[[BatchRow], None],
        segment_bytes: int,
    ) -> None:
        self._spark = history.spark
        self._tables = history
        self._on_batch = on_batch
        self._segment_bytes = segment_bytes

    def take_in_new(self, directory: str, batch_bytes: int) -> None:
        """Take in all segments below a directory that were not yet."""
        listed = list_segments(self._spark, directory)
        known = self._tables.read(SEGMENTS).select("file", "length")
        there = listed.select("file", "length", "modified")
        new = there.join(known, ["file", "length"], "left_anti").orderBy("modified", "file")
        for files in group_files(new.collect(), batch_bytes):
            self._take_in(listed, files)

    def _take_in(self, listed: DataFrame, files: Sequence[Row]) -> None:
        small = [each["file"] for each in files if each["length"] <= self._segment_bytes]
        task = RowTask(self._segment_bytes)
        read = listed.where(F.col("file").isin(small)).selectExpr(*WHOLE)
        with caching(read.mapInArrow(task, ROWS)) as every:
            lines = every.where("line > 0 AND kind IS NOT NULL").select(*_LINE)
            batch = self._count(every, lines, files)
            for kind in sorted(each["kind"] for each in lines.select("kind").distinct().collect()):
                of_kind = every.where((F.col("line") == -1) & (F.col("kind") == kind))
                content = of_kind.select(DAY, CLUSTER, "content")
                rows = content.mapInArrow(unpack_rows, rows_of(kind))
                self._merge(HISTORY[kind], rows, batch)
            # The rows come before the lines that count them.
            self._merge(LINES, lines, batch)
            if batch.faulty_lines or batch.unreadable:
                self._merge(QUARANTINE, self._faulty(every, files), batch)
        self._merge(BATCHES, self._spark.createDataFrame([batch], BATCHES.schema), batch)
        segments = [(each["file"], each["length"]) for each in files]
        self._merge(SEGMENTS, self._spark.createDataFrame(segments, SEGMENTS.schema), batch)
        self._on_batch(batch)

    def _merge(self, table: Table, rows: DataFrame, batch: BatchRow) -> None:
        merge(self._tables, table, rows.withColumn(BATCH, F.lit(batch.batch)))

    def _count(self, every: DataFrame, lines: DataFrame, files: Sequence[Row]) -> BatchRow:
        """The row of a batch; lines that came with another batch before are repeated ones."""
        known = self._tables.read(LINES).select("id", DAY)
        unique = lines.dropDuplicates(["id"])
        new = unique.join(known, ["id", DAY], "left_anti")
        taken, rows = new.agg(F.count("*"), F.coalesce(F.sum("rows"), F.lit(0))).collect()[0]
        read, good, faulty = every.agg(
            F.count_if((F.col("line") == 0) & F.col("fault").isNull()),
            F.count_if((F.col("line") > 0) & F.col("kind").isNotNull()),
            F.count_if((F.col("line") > 0) & F.col("kind").isNull()),
        ).collect()[0]
        return BatchRow(
            batch=name_batch((each["file"], each["length"]) for each in files),
            segments=len(files),
            unreadable=len(files) - read,
            lines=good + faulty,
            faulty_lines=faulty,
            repeated_lines=good - taken,
            taken_lines=taken,
            rows=rows,
        )

    def _faulty(self, every: DataFrame, files: Sequence[Row]) -> DataFrame:
        """Rows of the quarantine: lines, and files without a readable line."""
        found = every.where("fault IS NOT NULL").select(*_PLACE, "fault", "text")
        answered = {row["file"] for row in every.where("line = 0").select("file").collect()}
        limit = self._segment_bytes
        unread = [
            (each["file"], 0, too_large(limit) if each["length"] > limit else UNREADABLE, None)
            for each in files
            if each["file"] not in answered
        ]
        return found.unionByName(
            self._spark.createDataFrame(unread, "file string, line long, fault string, text string")
        )


def group_files(files: Iterable[Row], batch_bytes: int) -> Iterator[list[Row]]:
    """Files in batches of about this size; at least one in each."""
    group: list[Row] = []
    size = 0
    for each in files:
        group.append(each)
        size += each["length"]
        if size >= batch_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group
