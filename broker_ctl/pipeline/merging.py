"""Merges batches: small ones into one of a sensible size, and those with old days into the rest.

Both are one step: the rows that are kept are written as a new batch, whose row in `tables.BATCHES`
names the batches that it replaces. That row commits the new batch and retires the others at once,
so that readers never see a row twice, or miss one. The files of replaced batches stay until the
next merge or ingest starts: jobs that are reading them can finish.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import (
    delete,
    glob_files,
    local_path,
    path_exists,
    resolve_location,
)
from broker_ctl.pipeline.spark_errors import translate_spark_errors
from broker_ctl.pipeline.tables import BATCH, BATCHES, CLUSTER, DAY, LINES, QUARANTINE, BatchRow
from broker_ctl.pipeline.writer_lock import alone

# A row of bundle loads takes about forty bytes: files of a hundred megabytes and more.
ROWS_A_BATCH: Final = 4_000_000
_SMALL_ROWS: Final = ROWS_A_BATCH // 2
_NAME_DIGITS: Final = 15


class Merged(NamedTuple):
    """A merge.

    Attributes:
        batches: that became one.
        rows: of history in it.
        dropped: rows that were older than what is kept.
    """

    batches: int
    rows: int
    dropped: int


def compact(
    spark: SparkSession, root: str, on_merge: Callable[[Merged, int], None]
) -> list[Merged]:
    """Merge small batches of a warehouse into batches of about `ROWS_A_BATCH` rows.

    Args:
        spark: the session.
        root: of the tables.
        on_merge: hears of each merge when it counts, and how many there will be.

    Raises:
        PipelineError: an ingest or another merge runs, or something cannot be read or written.
    """
    place = resolve_location(root)
    with alone(local_path(spark, place)), translate_spark_errors(root):
        return compact_locked(spark, place, on_merge)


def compact_locked(
    spark: SparkSession, place: str, on_merge: Callable[[Merged, int], None]
) -> list[Merged]:
    """As `compact`, for who has the lock of the tables."""
    return _merge_all(spark, place, group, None, on_merge)


def expire(
    spark: SparkSession, root: str, keep_from: date, on_merge: Callable[[Merged, int], None]
) -> list[Merged]:
    """Delete the days before ``keep_from``; arguments and errors as of `compact`."""
    place = resolve_location(root)

    def affected(batches: Sequence[BatchRow]) -> list[list[BatchRow]]:
        names = {row.batch for row in batches}
        old = tables.read_batches(spark, place, LINES, names).where(F.col(DAY) < F.lit(keep_from))
        found = {row[BATCH] for row in old.select(BATCH).distinct().collect()}
        return [[row] for row in batches if row.batch in found]

    with alone(local_path(spark, place)), translate_spark_errors(root):
        return _merge_all(spark, place, affected, keep_from, on_merge)


def group(batches: Sequence[BatchRow]) -> list[list[BatchRow]]:
    """Which batches become one: small ones, in groups of two and more."""
    groups: list[list[BatchRow]] = [[]]
    for row in sorted(batches, key=lambda row: (row.rows, row.batch)):
        if row.rows > _SMALL_ROWS:
            break
        if sum(each.rows for each in groups[-1]) + row.rows > ROWS_A_BATCH:
            groups.append([])
        groups[-1].append(row)
    return [some for some in groups if len(some) > 1]


def _merge_all(
    spark: SparkSession,
    place: str,
    choose: Callable[[Sequence[BatchRow]], list[list[BatchRow]]],
    keep_from: date | None,
    on_merge: Callable[[Merged, int], None],
) -> list[Merged]:
    batches = tables.read_batch_rows(spark, place)
    if not batches:
        raise PipelineError(f"{place}: no history was taken in: broker-ctl pipeline ingest does it")
    counted = tables.select_counted(batches)
    names = {row.batch for row in counted}
    tables.delete_batches(spark, place, lambda name: name not in names)
    groups = choose(counted)
    merged = []
    for some in groups:
        merged.append(_Merge(spark, place, some, keep_from).run())
        on_merge(merged[-1], len(groups))
    if merged:
        _gather_batches(spark, place)
    return merged


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge: what becomes what.

    Attributes:
        old: batches that are replaced.
        keep_from: first day that is kept; None: all.
    """

    spark: SparkSession
    root: str
    old: Sequence[BatchRow]
    keep_from: date | None

    @property
    def old_names(self) -> list[str]:
        return sorted(row.batch for row in self.old)

    @property
    def name(self) -> str:
        """Of the new batch."""
        text = "\n".join([*self.old_names, str(self.keep_from)])
        return "m" + hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]

    def run(self) -> Merged:
        """Write the new batch, which replaces the old ones when its row is there."""
        for table in tables.HISTORY.values():
            self._rewrite(table)
        lines = self._rewrite(LINES)
        counts = lines.agg(F.count("*"), F.coalesce(F.sum("rows"), F.lit(0)))
        taken, rows = counts.collect()[0]
        quarantined = self._rewrite(QUARANTINE)
        counts = quarantined.agg(F.count_if(F.col("line") == 0), F.count_if(F.col("line") > 0))
        unreadable, faulty = counts.collect()[0]
        repeated = sum(each.repeated_lines for each in self.old)
        row = BatchRow(
            batch=self.name,
            segments=sum(each.segments for each in self.old),
            unreadable=unreadable,
            lines=faulty + repeated + taken,
            faulty_lines=faulty,
            repeated_lines=repeated,
            taken_lines=taken,
            rows=rows,
            replaces=tuple(self.old_names),
        )
        commit = self.spark.createDataFrame([row], BATCHES.schema).coalesce(1)
        tables.append(commit, self.root, BATCHES)
        return Merged(len(self.old), rows, sum(each.rows for each in self.old) - rows)

    def _rewrite(self, table: tables.Table) -> DataFrame:
        """Write the rows that are kept as those of the new batch, sorted; returns them."""
        rows = tables.read_batches(self.spark, self.root, table, self.old_names)
        if not path_exists(self.spark, tables.path_of(self.root, table)):
            return rows
        if DAY in table.partitions:
            # The subject before the time: files can be skipped by it, and neighbours are alike.
            order = [name for name in reversed(table.key) if name != CLUSTER]
            places = (DAY, CLUSTER)
            rows = rows.where(self._is_kept())
            rows = rows.repartition(*places).sortWithinPartitions(*places, *order)
        else:
            # The quarantine knows no days: what a batch has there goes with its last row.
            rows = rows.where(F.col(BATCH).isin(self._left())).coalesce(1)
        tables.append(rows.withColumn(BATCH, F.lit(self.name)), self.root, table)
        return tables.read_batches(self.spark, self.root, table, [self.name])

    def _is_kept(self) -> Column:
        return F.lit(True) if self.keep_from is None else F.col(DAY) >= F.lit(self.keep_from)  # noqa: FBT003

    def _left(self) -> list[str]:
        """Old batches of which rows are kept."""
        if self.keep_from is None:
            return self.old_names
        rows = tables.read_batches(self.spark, self.root, LINES, self.old_names)
        found = rows.where(self._is_kept()).select(BATCH).distinct().collect()
        return [row[BATCH] for row in found]


def _gather_batches(spark: SparkSession, root: str) -> None:
    """One file instead of one per batch; a copy that a kill leaves behind is not a second batch."""
    place = tables.path_of(root, BATCHES)
    files = list(glob_files(spark, place, "*.parquet"))
    rows = spark.createDataFrame(tables.read_batch_rows(spark, root), BATCHES.schema)
    tables.append(rows.coalesce(1), root, BATCHES)
    for path in files:
        delete(spark, path)
