"""Sums of bundle loads by the hour, as a worker reads them from the files of the table.

A history has a row per bundle and minute. Arrow adds them up to rows per bundle and hour several
times as fast as Spark; Spark adds up what the files have of the same hour.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.reading.files import open_filesystem
from broker_ctl.pipeline.tables import CLUSTER

HOUR_MS: Final = 3_600_000
_ROWS_AT_ONCE: Final = 1 << 18
# The measures, each of two columns that are added; a sum counts where neither is null.
_ADDED: Final = {
    "msg_rate": ("msg_rate_in", "msg_rate_out"),
    "bytes_s": ("bytes_in", "bytes_out"),
}
_COLUMNS: Final = ["bundle", "at_ms", "usage_ratio", "topics", *chain(*_ADDED.values())]
_KEY: Final = ["bundle", "hour_ms"]
_SUMMED: Final = ("msg_rate", "bytes_s", "usage_ratio")
# Of a bundle in an hour, as far as one file has it: sum and number of each measure, rows in all.
PARTS: Final = StructType(
    [
        StructField(CLUSTER, StringType()),
        StructField("bundle", StringType()),
        StructField("hour_ms", LongType()),
        *(StructField(f"{name}_sum", DoubleType()) for name in _SUMMED),
        *(StructField(f"{name}_count", LongType()) for name in _SUMMED),
        StructField("topics_max", LongType()),
        StructField("count_all", LongType()),
    ]
)
_ARROW: Final = to_arrow_schema(PARTS)


def add_up_hours(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield `PARTS`; for `DataFrame.mapInArrow`, of rows with a directory of files of a cluster."""
    for batch in batches:
        for folder in batch.column(0).to_pylist():
            try:
                for filesystem, path in _files(folder):
                    yield from _parts(filesystem, path).to_batches()
            except OSError as error:
                raise PipelineError(f"{folder}: {error}") from error


def _files(folder: str) -> Iterator[tuple[Any, str]]:
    """The files of a directory, with their file system."""
    filesystem, path = open_filesystem(folder)
    for info in filesystem.get_file_info(fs.FileSelector(path)):
        if info.is_file and not info.base_name.startswith((".", "_")):
            yield filesystem, info.path


def _parts(filesystem: Any, path: str) -> Any:
    """What a file adds up to."""
    with pq.ParquetFile(path, filesystem=filesystem) as file:
        some = [_sums(each) for each in file.iter_batches(_ROWS_AT_ONCE, columns=_COLUMNS)]
    if not some:
        return _ARROW.empty_table()
    # Several batches have the same hour; Spark adds these up, as it does those of several files.
    every = pa.concat_tables(some)
    cluster = pa.array([_cluster_of(path)] * len(every), pa.string())
    return every.add_column(0, CLUSTER, cluster).select(_ARROW.names).cast(_ARROW)


def _sums(rows: Any) -> Any:
    """By bundle and hour, without rows whose owner has not reported them."""
    at_ms = rows.column("at_ms")
    # Division of positive integers rounds down.
    hour_ms = pc.multiply(pc.divide(at_ms, HOUR_MS), HOUR_MS)
    added = {name: pc.add(*(rows.column(each) for each in pair)) for name, pair in _ADDED.items()}
    table = pa.table(
        {
            "bundle": rows.column("bundle"),
            "hour_ms": hour_ms,
            **added,
            **{name: rows.column(name) for name in ("usage_ratio", "topics")},
        }
    ).filter(pc.is_valid(rows.column("bytes_in")))
    wanted = [(name, how) for how in ("sum", "count") for name in _SUMMED]
    return table.group_by(_KEY).aggregate([*wanted, ("topics", "max"), ([], "count_all")])


def _cluster_of(path: str) -> str:
    # ROOT/bundle_loads/dt=D/cluster=C/batch=B/FILE
    return unquote(path.split("/")[-3].removeprefix(f"{CLUSTER}="))


def sum_hours(rows: DataFrame) -> DataFrame:
    """`PARTS` of rows of bundle loads, added up by Spark; for files that are not ours to read."""
    reported = rows.where("bytes_in IS NOT NULL")
    for name, (one, other) in _ADDED.items():
        reported = reported.withColumn(name, F.col(one) + F.col(other))
    hour_ms = (F.col("at_ms") - F.col("at_ms") % HOUR_MS).alias("hour_ms")
    return reported.groupBy(CLUSTER, "bundle", hour_ms).agg(
        *(F.sum(name).alias(f"{name}_sum") for name in _SUMMED),
        *(F.count(name).alias(f"{name}_count") for name in _SUMMED),
        F.max("topics").alias("topics_max"),
        F.count("*").alias("count_all"),
    )
