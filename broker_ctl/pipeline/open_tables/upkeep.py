"""Compaction and retention of open tables: the format's own procedures, a table after the other."""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F

from broker_ctl.pipeline.open_tables.tables import TABLES, OpenTables
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import BATCH, DAY, LINES, SEGMENTS, Table


class Kept(NamedTuple):
    """What was done to a table.

    Attributes:
        removed, added: data files that are not part of it any more, and new ones.
        dropped: rows that were older than what is kept.
    """

    table: str
    removed: int = 0
    added: int = 0
    dropped: int = 0


def compact(history: OpenTables, on_table: Callable[[Kept, int], None]) -> list[Kept]:
    """Merge small files; readers and writers may go on meanwhile.

    Args:
        history: the tables.
        on_table: hears of each table, and how many there are.
    """
    done = []
    with translate_spark_errors(history.root):
        there = [table for table in TABLES if history.exists(table)]
        for table in there:
            done.append(_compact(history, table))
            on_table(done[-1], len(there))
    return done


def _compact(history: OpenTables, table: Table) -> Kept:
    return history.commit(table, lambda: _rewrite(history, table))


def _rewrite(history: OpenTables, table: Table) -> Kept:
    name = history.name_of(table)
    if history.format is Format.DELTA:
        metrics = history.spark.sql(f"OPTIMIZE {name}").collect()[0]["metrics"]
        return Kept(table.name, metrics["numFilesRemoved"], metrics["numFilesAdded"])
    found = _call(history, "rewrite_data_files", table)
    return Kept(table.name, found["rewritten_data_files_count"], found["added_data_files_count"])


def expire(
    history: OpenTables,
    keep_from: date,
    on_table: Callable[[Kept, int], None],
) -> list[Kept]:
    """Delete the days before ``keep_from``, then files that no snapshot needs any more.

    How long old snapshots are kept is a property of the tables, with the format's default.
    """
    with translate_spark_errors(history.root):
        return _expire_all(history, keep_from, on_table)


def _expire_all(
    history: OpenTables, keep_from: date, on_table: Callable[[Kept, int], None]
) -> list[Kept]:
    there = [table for table in TABLES if history.exists(table)]
    # What names a batch goes before the lines that show how old it is.
    there.sort(key=lambda table: DAY in table.partitions)
    days = f"`{DAY}` < DATE'{keep_from}'"
    batches = _name_batches(history, keep_from)
    done = []
    for table in there:
        where = days if DAY in table.partitions else batches
        if table == SEGMENTS:
            # A segment that daemons still keep would be taken in again.
            where = "FALSE"
        done.append(_expire(history, table, where))
        on_table(done[-1], len(there))
    return done


def _expire(history: OpenTables, table: Table, where: str) -> Kept:
    name = history.name_of(table)
    dropped = history.read(table).where(where).count()
    if dropped:
        statement = f"DELETE FROM {name} WHERE {where}"  # noqa: S608  days, and names of batches
        history.commit(table, lambda: history.spark.sql(statement))
    return Kept(table.name, _clean(history, table), 0, dropped)


def _name_batches(history: OpenTables, keep_from: date) -> str:
    """Condition for batches whose lines are all older."""
    newest = history.read(LINES).groupBy(BATCH).agg(F.max(DAY).alias("newest"))
    old = newest.where(F.col("newest") < F.lit(keep_from)).select(BATCH).collect()
    names = ", ".join(f"'{row[BATCH]}'" for row in sorted(old))
    return f"`{BATCH}` IN ({names})" if names else "FALSE"


def _clean(history: OpenTables, table: Table) -> int:
    """Delete files of old snapshots; how many."""
    if history.format is Format.ICEBERG:
        return int(_call(history, "expire_snapshots", table)["deleted_data_files_count"])
    name = history.name_of(table)
    # It writes to the log, too.
    history.commit(table, lambda: history.spark.sql(f"VACUUM {name}").collect())
    newest = history.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["operationMetrics"]
    return int(newest.get("numDeletedFiles", 0))


def _call(history: OpenTables, procedure: str, table: Table) -> Row:
    catalog, _, space = history.root.partition(".")
    rows = history.spark.sql(
        f"CALL `{catalog}`.system.{procedure}(table => '{space}.{table.name}')"
    )
    return rows.collect()[0]
