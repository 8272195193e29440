"""The tables of a warehouse: schema, grain and key of each, and where its rows stand on disk.

What comes from the history is declared in `core/history`; the pipeline's own rows are declared
with the same words. A table is a directory of Parquet files::

    ROOT/bundle_loads/dt=2026-11-22/cluster=east/batch=5c0f.../part-*.parquet

A batch counts when its row stands in `BATCHES`, which is written last, and no other row replaces
it. The row lists the files of the batch, and readers read these alone: they see whole batches,
whenever a writer dies, and whatever another attempt at one of its tasks writes meanwhile or later.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from broker_ctl.core.history.columns import Column, ColumnType, Doc, RowKind, kind
from broker_ctl.core.history.row_kinds import KINDS, STAMP
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import delete, glob_files, literal, path_exists

DAY: Final = "dt"
CLUSTER: Final = "cluster"
BATCH: Final = "batch"
_NAME_DIGITS: Final = 16
# Names of more batches are not put into one pattern.
_FEW_BATCHES: Final = 64

TYPES: Final[Mapping[ColumnType, DataType]] = {
    ColumnType.TEXT: StringType(),
    ColumnType.INTEGER: LongType(),
    ColumnType.NUMBER: DoubleType(),
    ColumnType.FLAG: BooleanType(),
    ColumnType.TEXTS: ArrayType(StringType()),
    ColumnType.INTEGERS: ArrayType(LongType()),
}
# Of the stamp of a line, what its rows keep; the cluster is a directory.
STAMPED: Final = tuple(
    column for column in STAMP.columns if column.name not in {"kind", "format", CLUSTER}
)
_PARTITIONS: Final = StructType(
    [
        StructField(DAY, DateType(), nullable=False, metadata={"comment": "day of at_ms, UTC"}),
        StructField(CLUSTER, StringType(), nullable=False, metadata={"comment": "its name"}),
        StructField(BATCH, StringType(), nullable=False, metadata={"comment": "that brought it"}),
    ]
)


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        grain: what there is exactly one row of, in words.
        key: the columns that say which.
        schema: of its rows, those columns that are directories last.
        partitions: columns that are directories, the outermost first.
        defaults: what a column means that older files have not got.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    schema: StructType
    partitions: tuple[str, ...]
    defaults: Mapping[str, Any]


class LineRow(NamedTuple):
    """A line of a segment whose rows are in the tables."""

    id: Annotated[str, Doc("of the line, see core.history.lines.Stamp")]
    kind: Annotated[str, Doc("name of the table that its rows are in")]
    file: Annotated[str, Doc("URI of the segment")]
    line: Annotated[int, Doc("in the segment, from 1")]
    rows: Annotated[int, Doc("that it holds")]


class QuarantineRow(NamedTuple):
    """A line, or a whole segment, that nothing was made of."""

    file: Annotated[str, Doc("URI of the segment")]
    line: Annotated[int, Doc("in the segment, from 1; 0: the segment as a whole")]
    fault: Annotated[str, Doc("what is wrong with it")]
    text: Annotated[
        str | None, Doc("the line as it is; null of a segment, and of a line that is too long")
    ]


class SegmentRow(NamedTuple):
    """A segment that was taken in, or is in quarantine as a whole."""

    file: Annotated[str, Doc("its URI")]
    length: Annotated[int, Doc("as it is", "bytes")]


class BatchRow(NamedTuple):
    """A batch of segments that was taken in as a whole. The counts of lines add up."""

    batch: Annotated[str, Doc("hash of the names and sizes of its segments")]
    segments: Annotated[int, Doc("files")]
    unreadable: Annotated[int, Doc("segments that could not be read, or are too large")]
    lines: Annotated[int, Doc("in the others")]
    faulty_lines: Annotated[int, Doc("that are in quarantine")]
    repeated_lines: Annotated[int, Doc("that had been taken in before, or twice in the batch")]
    taken_lines: Annotated[int, Doc("that are in lines")]
    rows: Annotated[int, Doc("that these hold")]
    replaces: Annotated[
        tuple[str, ...] | None, Doc("batches that were merged into this one; they do not count")
    ] = None
    files: Annotated[
        tuple[str, ...] | None,
        Doc("of its tables, from their root on; null: all that stand in its directories"),
    ] = None


def schema_of(columns: tuple[Column, ...]) -> StructType:
    """The columns of declared rows."""
    return StructType(
        [
            StructField(
                column.name,
                TYPES[column.type],
                nullable=column.is_optional,
                metadata={"comment": f"{column.says}; {column.unit}".rstrip("; ")},
            )
            for column in columns
        ]
    )


def plain(kind: RowKind[Any], partitions: StructType | None = None) -> Table:
    """The table of declared rows; ``partitions`` are columns besides theirs."""
    beside = partitions or StructType([])
    schema = StructType([*schema_of(kind.columns).fields, *beside.fields])
    return Table(kind.name, kind.grain, kind.key, schema, tuple(beside.names), _defaults(kind))


def _with_stamp(kind: RowKind[Any]) -> Table:
    """The table of a kind of the history."""
    own = [*schema_of(STAMPED).fields, *schema_of(kind.columns).fields]
    schema = StructType([*own, *_PARTITIONS.fields])
    return Table(kind.name, kind.grain, kind.key, schema, tuple(_PARTITIONS.names), _defaults(kind))


def _defaults(kind: RowKind[Any]) -> Mapping[str, Any]:
    return {column.name: column.default for column in kind.columns if column.default is not None}


HISTORY: Final[Mapping[str, Table]] = {name: _with_stamp(each) for name, each in KINDS.items()}
LINES: Final = plain(
    kind("lines", LineRow, "one row per line that was taken in", "id"), _PARTITIONS
)
QUARANTINE: Final = plain(
    kind(
        "quarantine",
        QuarantineRow,
        "one row per line or segment that could not be read",
        *("batch", "file", "line"),
    ),
    StructType([_PARTITIONS[BATCH]]),
)
BATCHES: Final = plain(
    kind("batches", BatchRow, "one row per batch that was taken in as a whole", "batch")
)
# Of open formats only: Parquet's ingest has the checkpoint of its stream.
SEGMENTS: Final = plain(
    kind("segments", SegmentRow, "one row per segment that was taken in", "file", "length")
)
# All that hold batches.
BATCHED: Final = (*HISTORY.values(), LINES, QUARANTINE)


def name_batch(files: Iterable[tuple[str, int]]) -> str:
    """Name of a batch: a digest of the names and sizes of its files, whatever their order."""
    names = sorted(f"{file} {length}" for file, length in files)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:_NAME_DIGITS]


def path_of(root: str, table: Table) -> str:
    """The directory of a table."""
    return f"{root}/{table.name}"


def append(frame: DataFrame, root: str, table: Table) -> None:
    """Add rows, which must have the table's columns.

    Raises:
        PipelineError: a column is missing.
    """
    writer = conform(frame, table).write.mode("append").partitionBy(*table.partitions)
    writer.parquet(path_of(root, table))


def replace(frame: DataFrame, root: str, table: Table) -> None:
    """Replace a table, in as few files as its size needs.

    Raises:
        PipelineError: a column is missing.
    """
    conform(frame, table).write.mode("overwrite").parquet(path_of(root, table))


def replace_days(frame: DataFrame, root: str, table: Table, *, is_all: bool) -> None:
    """Replace those days of a table that the rows belong to, or the whole table.

    Args:
        frame: with the table's columns, and `DAY`.
        root: of the table.
        table: whose directories are days.
        is_all: whether other days are deleted.

    Raises:
        PipelineError: a column is missing.
    """
    mode = "static" if is_all else "dynamic"
    writer = (
        conform(frame, table, DAY).write.mode("overwrite").option("partitionOverwriteMode", mode)
    )
    writer.partitionBy(DAY).parquet(path_of(root, table))


def conform(frame: DataFrame, table: Table, *beside: str) -> DataFrame:
    """Exactly the table's columns, in its order and of its types; behind them those ``beside``.

    Raises:
        PipelineError: a column is missing.
    """
    missing = [name for name in table.schema.names if name not in frame.columns]
    if missing:
        raise PipelineError(
            f"table {table.name}: no column {', '.join(missing)}; there are:"
            f" {', '.join(frame.columns)}"
        )
    own = (F.col(each.name).cast(each.dataType) for each in table.schema.fields)
    return frame.select(*own, *beside)


def read_batch_rows(spark: SparkSession, root: str) -> list[BatchRow]:
    """The rows of `BATCHES`, of batches that count and of those that were replaced."""
    rows = whole(spark, root, BATCHES).select(*BatchRow._fields).collect()
    # A merge that was killed leaves copies.
    by_name = {row[BATCH]: BatchRow(*row) for row in rows}
    return [by_name[name] for name in sorted(by_name)]


def select_counted(batches: Iterable[BatchRow]) -> list[BatchRow]:
    """Those batches that count."""
    rows = list(batches)
    replaced = {name for row in rows for name in row.replaces or ()}
    return [row for row in rows if row.batch not in replaced]


def files_of(
    spark: SparkSession, root: str, table: Table, batches: Iterable[BatchRow]
) -> list[str]:
    """The files of a table that these batches list, from the root on."""
    found: list[str] = []
    unlisted = set()
    for row in batches:
        if row.files is None:
            unlisted.add(row.batch)
        else:
            found += (each for each in row.files if each.startswith(f"{table.name}/"))
    if unlisted:
        found += stored_files(spark, root, table, unlisted)
    return found


def stored_files(
    spark: SparkSession, root: str, table: Table, batches: Collection[str]
) -> list[str]:
    """Whatever files of a table stand in the directories of these batches, from the root on."""
    names = f"{{{','.join(batches)}}}" if len(batches) < _FEW_BATCHES else "*"
    above = "".join(f"{name}=*/" for name in table.partitions if name != BATCH)
    pattern = f"{above}{BATCH}={names}/*.parquet"
    every = (_below(table, path) for path in glob_files(spark, path_of(root, table), pattern))
    return [each for each in every if part_of(each, BATCH) in batches]


def part_of(file: str, column: str) -> str:
    """Of a file of a table, the value of a column that is a directory, as its name has it."""
    return next(
        each[len(column) + 1 :] for each in file.split("/") if each.startswith(f"{column}=")
    )


def _below(table: Table, path: str) -> str:
    return "/".join(path.split("/")[-len(table.partitions) - 2 :])


def delete_unlisted(spark: SparkSession, root: str, batches: Iterable[BatchRow]) -> None:
    """Delete what stands in directories of batches, and is of none of these."""
    rows = list(batches)
    unlisted = {row.batch for row in rows if row.files is None}
    for table in BATCHED:
        kept = {each for row in rows for each in row.files or ()}
        folders = {each.rpartition("/")[0] for each in kept}
        pattern = "/".join(f"{name}=*" for name in table.partitions)
        for path in glob_files(spark, path_of(root, table), pattern):
            folder = "/".join(path.split("/")[-len(table.partitions) - 1 :])
            if part_of(folder, BATCH) in unlisted:
                continue
            if folder not in folders:
                delete(spark, path)
                continue
            for file in glob_files(spark, path, "*"):
                if _below(table, file) not in kept:
                    delete(spark, file)


def read_batches(
    spark: SparkSession, root: str, table: Table, batches: Iterable[BatchRow]
) -> DataFrame:
    """The rows of a table that these batches list."""
    return read_files(spark, root, table, files_of(spark, root, table, batches))


def read_files(spark: SparkSession, root: str, table: Table, files: Iterable[str]) -> DataFrame:
    """The rows of some files of a table, which are named from the root on."""
    paths = [literal(f"{root}/{each}") for each in files]
    if not paths:
        return spark.createDataFrame([], table.schema)
    reader = spark.read.schema(table.schema).option("basePath", path_of(root, table))
    return _with_defaults(reader.parquet(*paths), table)


def whole(spark: SparkSession, root: str, table: Table) -> DataFrame:
    """Whatever stands in the directory of a table; no rows where there is none."""
    path = path_of(root, table)
    if not path_exists(spark, path):
        return spark.createDataFrame([], table.schema)
    return _with_defaults(spark.read.schema(table.schema).parquet(path), table)


def _with_defaults(read: DataFrame, table: Table) -> DataFrame:
    # A result has directories by day, which are not among its columns.
    frame = read.select(*table.schema.names)
    for name, value in table.defaults.items():
        frame = frame.withColumn(name, F.coalesce(name, F.lit(value)))
    return frame
