"""Checks tables: that keys are unique, and not null."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import LINES, QUARANTINE, BatchRow, Table
from broker_ctl.pipeline.warehouse import open_warehouse


def check(frame: DataFrame, table: Table) -> int:
    """Check a table; return its number of rows.

    Raises:
        PipelineError: a required column has nulls, or rows have the same key.
    """
    return check_each([(frame, table)])[table.name]


def check_all(spark: SparkSession, root: str) -> dict[str, int]:
    """Check all tables of a warehouse; return the number of rows of each.

    Raises:
        PipelineError: a table fails its check, or the counts of rows and lines do not match.
    """
    with translate_spark_errors(root):
        history = open_warehouse(spark, root)
        rows = check_each([(history.read(table), table) for table in tables.BATCHED])
        held = history.read(LINES).groupBy("kind").agg(F.sum("rows")).collect()
    of_lines = dict(map(tuple, held))
    for name in tables.HISTORY:
        if rows[name] != of_lines.get(name, 0):
            raise PipelineError(
                f"{root}: {rows[name]} rows of {name}; its lines brought {of_lines.get(name, 0)}"
            )
    if Location.of(root).format is Format.PARQUET:
        _check_promises(root, rows, history.batches())
    return rows


def _check_promises(root: str, rows: Mapping[str, int], batches: Sequence[BatchRow]) -> None:
    """What the batches say was taken in; they commit it, and others cannot have written it."""
    for what, count, promised in (
        ("lines", rows[LINES.name], sum(each.taken_lines for each in batches)),
        (
            "lines and segments in quarantine",
            rows[QUARANTINE.name],
            sum(each.faulty_lines + each.unreadable for each in batches),
        ),
    ):
        if count != promised:
            raise PipelineError(f"{root}: {count} {what}; its batches brought {promised}")


def check_each(given: Sequence[tuple[DataFrame, Table]]) -> dict[str, int]:
    """As `check`, for several tables in one job; the rows of each by its name."""
    found = reduce(DataFrame.unionAll, (_inspect(*each) for each in given)).collect()
    by_name = {row["name"]: row for row in found}
    for frame, table in given:
        row = by_name[table.name]
        if row["with_nulls"]:
            raise PipelineError(_describe_null(frame, table))
        if row["most"] > 1:
            raise PipelineError(_describe_repetition(frame, table))
    return {table.name: by_name[table.name]["rows"] for _, table in given}


def _inspect(frame: DataFrame, table: Table) -> DataFrame:
    """One row: name; rows; with_nulls, in required columns; most, rows with the same key."""
    has_null = reduce(or_, (F.col(name).isNull() for name in _needed(table)))
    by_key = frame.groupBy(*table.key).agg(
        F.count("*").alias("rows_of_key"), F.count_if(has_null).alias("nulls_of_key")
    )
    return by_key.select(
        F.lit(table.name).alias("name"),
        *(
            F.coalesce(found, F.lit(0)).alias(name)
            for name, found in (
                ("rows", F.sum("rows_of_key")),
                ("with_nulls", F.sum("nulls_of_key")),
                ("most", F.max("rows_of_key")),
            )
        ),
    )


def _needed(table: Table) -> list[str]:
    return [field.name for field in table.schema.fields if not field.nullable]


def _describe_null(frame: DataFrame, table: Table) -> str:
    counts = frame.agg(*(F.count_if(F.col(name).isNull()).alias(name) for name in _needed(table)))
    bad = {name: count for row in counts.collect() for name, count in row.asDict().items() if count}
    return f"table {table.name}: nulls in columns that must have none: {bad}"


def _describe_repetition(frame: DataFrame, table: Table) -> str:
    by_key = frame.groupBy(*table.key).agg(F.count("*").alias("rows_of_key"))
    repeated = by_key.where("rows_of_key > 1").take(1)[0]
    key = ", ".join(f"{name}={repeated[name]}" for name in table.key)
    return f"table {table.name} has {table.grain}; but {repeated['rows_of_key']} rows have {key}"
