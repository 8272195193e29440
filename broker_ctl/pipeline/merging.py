"""Merges small batches into one of a sensible size, and leaves old days out of others.

Both are one step: a new batch, whose row in `tables.BATCHES` lists its files and names the batches
that it replaces. That row commits the new batch and retires the others at once, so that readers
never see a row twice, or miss one. Files that are left out stay until the next merge or ingest
starts: jobs that are reading them can finish.
"""

import hashlib
from collections.abc import Callable, Sequence
from datetime import date
from itertools import chain
from typing import Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import alone, delete, glob_files, local_path, resolve_location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.tables import (
    BATCH,
    BATCHES,
    CLUSTER,
    DAY,
    LINES,
    QUARANTINE,
    BatchRow,
    part_of,
)

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
    return _replace_all(spark, place, group, lambda some: _rewrite(spark, place, some), on_merge)


def expire(
    spark: SparkSession, root: str, keep_from: date, on_merge: Callable[[Merged, int], None]
) -> list[Merged]:
    """Delete the days before ``keep_from``; arguments and errors as of `compact`."""
    place = resolve_location(root)

    def affected(batches: Sequence[BatchRow]) -> list[list[BatchRow]]:
        return [[row] for row in batches if any(map(is_old, _files(spark, place, row)))]

    def is_old(file: str) -> bool:
        return is_dated(file) and part_of(file, DAY) < str(keep_from)

    def shorten(some: Sequence[BatchRow]) -> BatchRow:
        (row,) = some
        kept = [each for each in _files(spark, place, row) if not is_old(each)]
        if not any(map(is_dated, kept)):
            # The quarantine knows no days: what a batch has there goes with its last row.
            kept = []
        return _row_of(spark, place, some, kept, str(keep_from))

    with alone(local_path(spark, place)), translate_spark_errors(root):
        return _replace_all(spark, place, affected, shorten, on_merge)


def is_dated(file: str) -> bool:
    """Whether all rows of a file are of one day."""
    return not file.startswith(f"{QUARANTINE.name}/")


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


def _replace_all(
    spark: SparkSession,
    place: str,
    choose: Callable[[Sequence[BatchRow]], list[list[BatchRow]]],
    make: Callable[[Sequence[BatchRow]], BatchRow],
    on_merge: Callable[[Merged, int], None],
) -> list[Merged]:
    batches = tables.read_batch_rows(spark, place)
    if not batches:
        raise PipelineError(f"{place}: no history was taken in: broker-ctl pipeline ingest does it")
    counted = tables.select_counted(batches)
    tables.delete_unlisted(spark, place, counted)
    groups = choose(counted)
    merged = []
    for some in groups:
        row = make(some)
        commit = spark.createDataFrame([row], BATCHES.schema).coalesce(1)
        tables.append(commit, place, BATCHES)
        merged.append(Merged(len(some), row.rows, sum(each.rows for each in some) - row.rows))
        on_merge(merged[-1], len(groups))
    if merged:
        _gather_batches(spark, place)
    return merged


def _rewrite(spark: SparkSession, root: str, some: Sequence[BatchRow]) -> BatchRow:
    """Write the rows of several batches as those of a new one, sorted."""
    name = _name_merge(some, "")
    files = []
    for table in tables.BATCHED:
        old = tables.files_of(spark, root, table, some)
        if not old:
            continue
        rows = tables.read_files(spark, root, table, old)
        if DAY in table.partitions:
            # The subject before the time: files can be skipped by it, and neighbours are alike.
            order = [each for each in reversed(table.key) if each != CLUSTER]
            places = (DAY, CLUSTER)
            rows = rows.repartition(*places).sortWithinPartitions(*places, *order)
        else:
            rows = rows.coalesce(1)
        tables.append(rows.withColumn(BATCH, F.lit(name)), root, table)
        files += tables.stored_files(spark, root, table, {name})
    return _row_of(spark, root, some, files, "")


def _row_of(
    spark: SparkSession, root: str, some: Sequence[BatchRow], files: Sequence[str], why: str
) -> BatchRow:
    """The row of a batch that replaces some, of these files."""
    row = BatchRow(_name_merge(some, why), *(0,) * 7, files=tuple(files))
    lines = tables.read_batches(spark, root, LINES, [row])
    taken, rows = lines.agg(F.count("*"), F.coalesce(F.sum("rows"), F.lit(0))).collect()[0]
    quarantined = tables.read_batches(spark, root, QUARANTINE, [row])
    counts = quarantined.agg(F.count_if(F.col("line") == 0), F.count_if(F.col("line") > 0))
    unreadable, faulty = counts.collect()[0]
    repeated = sum(each.repeated_lines for each in some)
    return row._replace(
        segments=sum(each.segments for each in some),
        unreadable=unreadable,
        lines=faulty + repeated + taken,
        faulty_lines=faulty,
        repeated_lines=repeated,
        taken_lines=taken,
        rows=rows,
        replaces=tuple(sorted(each.batch for each in some)),
    )


def _name_merge(some: Sequence[BatchRow], why: str) -> str:
    text = "\n".join([*sorted(row.batch for row in some), why])
    return "m" + hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]


def _files(spark: SparkSession, root: str, row: BatchRow) -> list[str]:
    """All that a batch has."""
    if row.files is not None:
        return [*row.files]
    each = (tables.files_of(spark, root, table, [row]) for table in tables.BATCHED)
    return [*chain.from_iterable(each)]


def _gather_batches(spark: SparkSession, root: str) -> None:
    """One file instead of one per batch; a copy that a kill leaves behind is not a second batch."""
    place = tables.path_of(root, BATCHES)
    files = list(glob_files(spark, place, "*.parquet"))
    rows = spark.createDataFrame(tables.read_batch_rows(spark, root), BATCHES.schema)
    tables.append(rows.coalesce(1), root, BATCHES)
    for path in files:
        delete(spark, path)
