"""Tables of a history: ingest, merges, compact, expire, readmit."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, counting_bar, engine_options, progress_bar
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.clock import SystemClock
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.settings import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.merging import Merged
    from broker_ctl.pipeline.open_tables.tables import OpenTables
    from broker_ctl.pipeline.open_tables.upkeep import Kept
    from broker_ctl.pipeline.tables import BatchRow


# ``broker-ctl pipeline ingest``: load history segments into tables.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline ingest /var/lib/broker-ctl/history --tables /data/tables
  broker-ctl pipeline ingest history --tables tables --check --output json
  broker-ctl pipeline ingest history --tables tables --every 60
  broker-ctl pipeline ingest hdfs:///history --tables hdfs:///tables --master yarn
"""


@click.command(name="ingest", epilog=_EXAMPLES)
@click.argument("history")
@click.option("--tables", required=True, metavar="DIR", help="Directory of the tables.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Repeat at this interval until Ctrl-C.",
)
@click.option("--check", "is_checked", is_flag=True, help="Check all tables afterwards.")
@engine_options
def ingest(
    engine: Engine, history: str, tables: str, every_s: float | None, *, is_checked: bool
) -> None:
    """Load new segments of the directory HISTORY into tables partitioned by day and cluster.

    Only completed segments are read, each exactly once, even after a run that was killed. Lines
    that cannot be read, and segments larger than ingestMaxSegmentBytes after decompression, go to
    the table quarantine with file name and line number; they do not change the exit code.
    """
    with engine.running() as spark:
        facts = ingest_history(engine, spark, history, tables, every_s, is_checked=is_checked)
    if engine.is_json:
        echo_json(facts)
    else:
        show_ingested(facts)


def ingest_history(
    engine: Engine,
    spark: "SparkSession",
    history: str,
    tables: str,
    every_s: float | None = None,
    *,
    is_checked: bool = False,
) -> dict[str, Any]:
    """Load new segments, with progress; what came of them, in JSON values."""
    from broker_ctl.pipeline.checks import check_all
    from broker_ctl.pipeline.ingest import IngestRules, ingest

    batches: list[BatchRow] = []
    rules = IngestRules(engine.settings.batch_bytes, every_s, engine.settings.segment_bytes)
    with progress_bar(engine, "starting Spark") as update:

        def on_batch(batch: "BatchRow") -> None:
            batches.append(batch)
            rows = sum(each.rows for each in batches)
            update(f"{len(batches)} batches, {rows:,} rows", 0, 0)

        location = engine.location(tables)
        ingest(spark, history, location, rules, on_batch)
        if is_checked:
            update("checking the tables", 0, 0)
    counts = check_all(spark, engine.location(tables)) if is_checked else None
    names = ("segments", "unreadable", "lines", "faulty_lines", "repeated_lines", "rows")
    facts: dict[str, Any] = {"batches": len(batches)}
    facts |= {name: sum(getattr(batch, name) for batch in batches) for name in names}
    if counts is not None:
        facts["tables"] = [{"table": name, "rows": rows} for name, rows in counts.items()]
    return facts


def show_ingested(facts: Mapping[str, Any]) -> None:
    """Print it for people."""
    print_facts("", facts)
    if facts["faulty_lines"] or facts["unreadable"]:
        click.echo("Unreadable lines are in the table quarantine.", err=True)


# What ``compact`` and ``expire`` do with open tables, and what they print.


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
    from broker_ctl.pipeline.open_tables.tables import OpenTables

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


# ``broker-ctl pipeline compact``: merge small files of the tables.


_COMPACT_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline compact tables
  broker-ctl pipeline compact hdfs:///tables --master yarn --output json
"""


@click.command(name="compact", epilog=_COMPACT_EXAMPLES)
@click.argument("tables")
@engine_options
def compact(engine: Engine, tables: str) -> None:
    """Merge small batches of TABLES into few files per day and cluster, sorted by subject and time.

    Readers see the same rows before, during and after it. A run that is killed changes nothing, or
    what it has completed. No ingest may run meanwhile; one with --every compacts by itself. The old
    files are deleted when the next compact, expire or ingest starts.

    Tables of Iceberg and Delta are compacted by the format itself (rewrite_data_files, OPTIMIZE),
    also while others write.
    """
    with engine.running() as spark:
        from broker_ctl.pipeline.merging import compact

        if history := open_tables(engine, spark, tables):
            rewrite_open_tables(engine, history)
            return
        with progress_bar(engine, "reading the batches") as update:
            done = 0

            def on_merge(merged: "Merged", total: int) -> None:
                nonlocal done
                done += 1
                update(f"{merged.batches} batches, {merged.rows:,} rows", done, total)

            found = compact(spark, tables, on_merge)
    show(engine, found)


# ``broker-ctl pipeline expire``: delete old days of the tables.


_EXPIRE_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline expire tables --older-than 90
  broker-ctl pipeline expire tables --older-than 30 --output json
"""


@click.command(name="expire", epilog=_EXPIRE_EXAMPLES)
@click.argument("tables")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=1),
    required=True,
    metavar="DAYS",
    help="Number of days that are kept, including today (UTC).",
)
@engine_options
def expire(engine: Engine, tables: str, days: int) -> None:
    """Delete the rows of TABLES that are older than some days, with what quarantine has of them.

    Profiles and reports that were computed before stay as they are. Readers see all rows or only
    the kept ones. No ingest may run meanwhile. Disk space is free when the next compact, expire or
    ingest starts. Segments are not touched: an ingest with a new checkpoint would bring back those
    that daemons still keep.

    With Iceberg and Delta the rows are deleted at once, also while others write, and files of old
    snapshots (expire_snapshots, VACUUM) after the time that is a property of the tables.
    """
    today = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC).date()
    keep_from = today - timedelta(days=days - 1)
    with engine.running() as spark:
        from broker_ctl.pipeline.merging import expire

        if history := open_tables(engine, spark, tables):
            expire_open_tables(engine, history, keep_from)
            return
        with progress_bar(engine, f"looking for days before {keep_from}") as update:
            done = 0

            def on_merge(merged: "Merged", total: int) -> None:
                nonlocal done
                done += 1
                update(f"{merged.dropped:,} rows less", done, total)

            found = expire(spark, tables, keep_from, on_merge)
    show(engine, found)


# ``broker-ctl pipeline readmit``: take in again what stands in quarantine.


_READMIT_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline readmit tables
  broker-ctl pipeline readmit tables --config pipeline.conf --output json
"""


@click.command(name="readmit", epilog=_READMIT_EXAMPLES)
@click.argument("tables")
@engine_options
def readmit(engine: Engine, tables: str) -> None:
    """Judge again what is in the quarantine of TABLES, and take in what has no fault now.

    After an upgrade these are lines that a newer release wrote; with a higher
    ingestMaxSegmentBytes, segments that were too large, if they are still there. The rest stays in
    quarantine. No ingest may run meanwhile. A run that is killed changes nothing.

    Tables of Iceberg and Delta are refused: take their history in to new tables.
    """
    with engine.running() as spark:
        from broker_ctl.pipeline.readmission import readmit

        if open_tables(engine, spark, tables):
            raise PipelineError(
                f"{tables}: the quarantine of Iceberg and Delta is not judged again: take the"
                " history in to new tables"
            )
        with progress_bar(engine, "judging the quarantine"):
            found = readmit(spark, tables, engine.settings.segment_bytes)
    if engine.is_json:
        echo_json(found._asdict())
    else:
        print_facts("", found._asdict())
