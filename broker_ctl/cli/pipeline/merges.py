"""What ``compact`` and ``expire`` do with open tables, and what they print."""

from datetime import date
from typing import TYPE_CHECKING

from broker_ctl.cli.pipeline.spark import Engine, counting_bar
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.pipeline.table_format import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.merging import Merged
    from broker_ctl.pipeline.open_tables.catalog import OpenTables
    from broker_ctl.pipeline.open_tables.upkeep import Kept

_LOOKING = "looking for the tables"
_COLUMNS = ("table", "files removed", "files added", "rows dropped")


def show(engine: Engine, merged: "list[Merged]") -> None:
    """Print totals of merges."""
    facts = {
        "merges": len(merged),
        "batches": sum(each.batches for each in merged),
        "rows": sum(each.rows for each in merged),
        "dropped": sum(each.dropped for each in merged),
    }
    if engine.is_json:
        echo_json(facts)
    else:
        print_facts("", facts)


def open_tables(engine: Engine, spark: "SparkSession", tables: str) -> "OpenTables | None":
    """The tables, if their format is an open one."""
    from broker_ctl.pipeline.location import Location
    from broker_ctl.pipeline.open_tables.catalog import OpenTables

    location = Location.of(engine.location(tables))
    return None if location.format is Format.PARQUET else OpenTables(spark, location)


def rewrite_open_tables(engine: Engine, history: "OpenTables") -> None:
    """Have the format merge small files, with progress, and print what it did."""
    from broker_ctl.pipeline.open_tables.upkeep import compact

    with counting_bar(engine, _LOOKING) as count:
        done = compact(history, lambda kept, total: count(kept.table, total))
    _show_kept(engine, done)


def expire_open_tables(engine: Engine, history: "OpenTables", keep_from: date) -> None:
    """Delete old days, with progress, and print what was deleted."""
    from broker_ctl.pipeline.open_tables.upkeep import expire

    with counting_bar(engine, _LOOKING) as count:
        done = expire(history, keep_from, lambda kept, total: count(kept.table, total))
    _show_kept(engine, done)


def _show_kept(engine: Engine, kept: "list[Kept]") -> None:
    if engine.is_json:
        echo_json({"tables": [each._asdict() for each in kept]})
    else:
        print_table("", _COLUMNS, map(tuple, kept))
