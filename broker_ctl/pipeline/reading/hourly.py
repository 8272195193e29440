"""Sums and medians by hour, in Python workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.reading.files import open_filesystem
from broker_ctl.pipeline.tables import CLUSTER

# Exact medians, as a worker finds them in columns of Arrow.
#
# Spark keeps a map of the values of each group, and spills it from some groups on; numpy sorts a
# million of them in a tenth of a second.


@dataclass(frozen=True, slots=True)
class MedianTask:
    """A function for `DataFrame.mapInArrow`: one row of each key, where no key is in two tasks.

    Attributes:
        key: columns that are equal within a group.
        measures: columns of which there are medians; nulls do not count.
        count: name of the column with the number of rows.
    """

    key: Sequence[str]
    measures: Sequence[str]
    count: str

    def taken(self, schema: StructType) -> list[StructField]:
        """The columns of the rows, of those of the result."""
        return [schema[name] for name in (*self.key, *self.measures)]

    def given(self, schema: StructType) -> StructType:
        """The columns of the result, in another order."""
        names = (*self.key, self.count, *self.measures)
        return StructType([StructField(name, schema[name].dataType) for name in names])

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the medians of all rows of the task."""
        some = [*batches]
        if sum(each.num_rows for each in some):
            yield from self._medians(pa.Table.from_batches(some)).to_batches()

    def _medians(self, rows: Any) -> Any:
        first, group, counts = _groups([rows.column(name) for name in self.key])
        keys = {name: rows.column(name).take(pa.array(first)) for name in self.key}
        values = {name: _medians(rows.column(name), group, counts) for name in self.measures}
        return pa.table({**keys, self.count: pa.array(counts, pa.int64()), **values})


def _groups(columns: Sequence[Any]) -> tuple[Any, Any, Any]:
    """The first row of each group; the group of each row; the number of rows of each group."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        code = code * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first, group, counts = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    return first, group, counts


def _medians(column: Any, group: Any, counts: Any) -> Any:
    """Of each group; null where it has no value."""
    # Null is not a number here, and goes behind all numbers of its group.
    values = column.to_numpy(zero_copy_only=False)
    order = np.lexsort((values, group))
    there = np.bincount(group, ~np.isnan(values), len(counts)).astype(np.int64)
    starts = np.cumsum(counts) - counts
    low, high = (values[order[starts + np.maximum(at, 0)]] for at in ((there - 1) // 2, there // 2))
    return pa.array(0.5 * low + 0.5 * high, pa.float64(), mask=there == 0)


# Sums of bundle loads by the hour, as workers read them from the files of the table.
#
# A history has a row per bundle and minute. Arrow adds those of a file up several times as fast as
# Spark, which adds up what little there is of each file.
#
# Bundles are split, merged and moved within an hour. So that the loads of an hour may be added
# up, each is divided by the cycles of the cluster in that hour, and not by those in which the
# bundle was there.


HOUR_MS: Final = 3_600_000
_ROWS_AT_ONCE: Final = 1 << 18
# Sums of batches and files that wait to be added up; a row takes about a hundred bytes.
_MOST_WAITING: Final = 1 << 21
# The measures, each of two columns that are added; a sum counts where neither is null.
_ADDED: Final = {
    "msg_rate": ("msg_rate_in", "msg_rate_out"),
    "bytes_s": ("bytes_in", "bytes_out"),
}
_COLUMNS: Final = [
    *("bundle", "at_ms", "epoch", "cycle", "usage_ratio", "topics"),
    *chain(*_ADDED.values()),
]
_KEY: Final = ["bundle", "hour_ms"]
# Of a row that says of an hour which cycles it had.
_CYCLE: Final = ["hour_ms", "epoch", "cycle"]
# Columns whose values need not be repeated by row.
_FEW: Final = ["bundle"]
_SUMMED: Final = ("msg_rate", "bytes_s", "usage_ratio")
# What is made of rows, and of what was made of some of them.
_ONCE: Final[list[tuple[Any, str]]] = [
    *((name, "sum") for name in _SUMMED),
    ("topics", "max"),
    ([], "count_all"),
]
_AGAIN: Final[list[tuple[Any, str]]] = [
    *((f"{name}_sum", "sum") for name in _SUMMED),
    ("topics_max", "max"),
    ("count_all", "sum"),
]
# Of a bundle in an hour, from a part of the rows: sum of each measure, rows in all. Where the
# bundle is null, a cycle of the cluster in which something was reported.
PARTS: Final = StructType(
    [
        StructField(CLUSTER, StringType()),
        StructField("bundle", StringType()),
        StructField("hour_ms", LongType()),
        StructField("epoch", LongType()),
        StructField("cycle", LongType()),
        *(StructField(f"{name}_sum", DoubleType()) for name in _SUMMED),
        StructField("topics_max", LongType()),
        StructField("count_all", LongType()),
    ]
)
# The same of all rows, and the number of cycles that the cluster had in the hour.
SUMS: Final = StructType(
    [
        *(each for each in PARTS.fields if each.name not in ("epoch", "cycle")),
        StructField("hour_cycles", LongType()),
    ]
)
_ARROW: Final = to_arrow_schema(PARTS)
_EMPTY: Final = _ARROW.empty_table()


@dataclass(frozen=True, slots=True)
class HourTask:
    """A function for `DataFrame.mapInArrow`, of rows with the number of a file.

    Attributes:
        files: of the table.
    """

    files: Sequence[str]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield `PARTS`, one row of each bundle and hour of a file, and of each cycle."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _add_up(self.files[number]).to_batches()


def _add_up(path: str) -> Any:
    sums = _UnsummedRows(_EMPTY.select([*_KEY, *(name for name, _ in _AGAIN)]), _KEY, _AGAIN)
    cycles = _UnsummedRows(_EMPTY.select(_CYCLE), _CYCLE, [])
    filesystem, place = open_filesystem(path)
    try:
        with pq.ParquetFile(place, filesystem=filesystem, read_dictionary=_FEW) as file:
            for each in file.iter_batches(_ROWS_AT_ONCE, columns=_COLUMNS):
                rows = _reported(each)
                sums.add(_sums(rows))
                cycles.add(rows.group_by(_CYCLE).aggregate([]))
    except OSError as error:
        raise PipelineError(f"{path}: {error}") from error
    found = pa.concat_tables([_EMPTY, sums.total(), cycles.total()], promote_options="permissive")
    cluster = pa.array([_cluster_of(path)] * len(found), pa.string())
    place = found.schema.get_field_index(CLUSTER)
    return found.set_column(place, CLUSTER, cluster).select(_ARROW.names).cast(_ARROW)


class _UnsummedRows:
    """Rows with the same key, which are added up before they become too many."""

    def __init__(self, empty: Any, key: Sequence[str], added: Sequence[tuple[Any, str]]) -> None:
        self._tables: list[Any] = [empty]
        self._rows = 0
        self._key = [*key]
        self._added = [*added]

    def add(self, rows: Any) -> None:
        """Add what was made of a few rows."""
        self._tables.append(rows)
        self._rows += len(rows)
        if self._rows > _MOST_WAITING:
            self._tables, self._rows = [self.total()], 0

    def total(self) -> Any:
        """One row of each key."""
        every = pa.concat_tables(self._tables, promote_options="permissive")
        added = every.group_by(self._key).aggregate(self._added)
        return added.rename_columns([*self._key, *(name for name, _ in self._added)])


def _reported(rows: Any) -> Any:
    """The rows that their owner has reported, each with its hour and what is added up."""
    at_ms = rows.column("at_ms")
    # Division of positive integers rounds down.
    hour_ms = pc.multiply(pc.divide(at_ms, HOUR_MS), HOUR_MS)
    added = {name: pc.add(*(rows.column(each) for each in pair)) for name, pair in _ADDED.items()}
    kept = ("bundle", "epoch", "cycle", "usage_ratio", "topics")
    table = pa.table({"hour_ms": hour_ms, **added, **{name: rows.column(name) for name in kept}})
    return table.filter(pc.is_valid(rows.column("bytes_in")))


def _sums(rows: Any) -> Any:
    """By bundle and hour."""
    summed = rows.group_by(_KEY).aggregate(_ONCE)
    # Dictionaries of two files are not the same.
    place = summed.schema.get_field_index("bundle")
    return summed.set_column(place, "bundle", summed.column(place).cast(pa.string()))


def _cluster_of(path: str) -> str:
    # ROOT/bundle_loads/dt=D/cluster=C/batch=B/FILE
    return unquote(path.split("/")[-3].removeprefix(f"{CLUSTER}="))


def sum_parts(parts: DataFrame) -> DataFrame:
    """`SUMS` of `PARTS`."""
    whole = parts.groupBy(CLUSTER, "bundle", "hour_ms", "epoch", "cycle").agg(
        *(F.sum(f"{name}_sum").alias(f"{name}_sum") for name in _SUMMED),
        F.max("topics_max").alias("topics_max"),
        F.sum("count_all").alias("count_all"),
    )
    # Rows of bundles have no cycle.
    cycles = F.count("cycle").over(Window.partitionBy(CLUSTER, "hour_ms"))
    counted = whole.withColumn("hour_cycles", cycles).where("bundle IS NOT NULL")
    return counted.select(*SUMS.names)


def sum_hours(rows: DataFrame) -> DataFrame:
    """`SUMS` of rows of bundle loads, added up by Spark; for files that are not ours to read."""
    reported = rows.where("bytes_in IS NOT NULL")
    for name, (one, other) in _ADDED.items():
        reported = reported.withColumn(name, F.col(one) + F.col(other))
    hourly = reported.withColumn("hour_ms", F.col("at_ms") - F.col("at_ms") % HOUR_MS)
    sums = hourly.groupBy(CLUSTER, "bundle", "hour_ms").agg(
        *(F.sum(name).alias(f"{name}_sum") for name in _SUMMED),
        F.max("topics").alias("topics_max"),
        F.count("*").alias("count_all"),
    )
    cycles = hourly.select(CLUSTER, *_CYCLE).distinct()
    return sum_parts(sums.unionByName(cycles, allowMissingColumns=True))
