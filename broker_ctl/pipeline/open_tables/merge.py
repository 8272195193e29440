"""Adds the rows that a table has not got yet, whatever other writers do meanwhile.

The format's own isolation does it: a commit whose merge has not seen the rows of another one is
refused, and the merge is made again.
"""

from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame

from broker_ctl.pipeline.open_tables.catalog import OpenTables, columns_of
from broker_ctl.pipeline.table_format import Format
from broker_ctl.pipeline.tables import CLUSTER, DAY, HISTORY, LINES, Table

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
