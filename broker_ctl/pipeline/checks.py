"""What a table promises, held against its rows: the grain, and that keys are known."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.failures import told
from broker_ctl.pipeline.folders import located
from broker_ctl.pipeline.tables import BATCHES, LINES, QUARANTINE, Table


def check(frame: DataFrame, table: Table) -> int:
    """How many rows a table has.

    Raises:
        PipelineError: a column that must not is null somewhere, or rows have the same key.
    """
    needed = [field.name for field in table.schema.fields if not field.nullable]
    nulls = (F.count_if(F.col(name).isNull()).alias(name) for name in needed)
    found = frame.agg(F.count("*").alias("rows_of_all"), *nulls).head()
    counts = found.asDict() if found is not None else {}
    rows = int(counts.pop("rows_of_all"))
    if bad := {name: count for name, count in counts.items() if count}:
        raise PipelineError(f"table {table.name}: nulls in columns that must have none: {bad}")
    repeated = frame.groupBy(*table.key).count().where("count > 1").head()
    if repeated is not None:
        told = ", ".join(f"{name}={repeated[name]}" for name in table.key)
        raise PipelineError(
            f"table {table.name} has {table.grain}; but {repeated['count']} rows have {told}"
        )
    return rows


def check_all(spark: SparkSession, root: str) -> dict[str, int]:
    """How many rows each table of a warehouse has, all of which are looked at.

    Raises:
        PipelineError: a table breaks its promise, or rows and lines were lost or are too many.
    """
    place = located(root)
    with told(root):
        rows = {
            table.name: check(tables.read(spark, place, table), table) for table in tables.BATCHED
        }
        totals = tables.whole(spark, place, BATCHES).agg(
            F.sum("taken_lines"), F.sum("rows"), F.sum(F.col("faulty_lines") + F.col("unreadable"))
        )
        taken, of_lines, faulty = (each or 0 for each in totals.head() or (0, 0, 0))
    of_history = sum(count for name, count in rows.items() if name in tables.HISTORY)
    for what, count, promised in (
        ("lines", rows[LINES.name], taken),
        ("rows of history", of_history, of_lines),
        ("lines and segments in quarantine", rows[QUARANTINE.name], faulty),
    ):
        if count != promised:
            raise PipelineError(f"{root}: {count} {what}; its batches brought {promised}")
    return rows
