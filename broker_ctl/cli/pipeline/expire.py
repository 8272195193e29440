"""``broker-ctl pipeline expire``: delete old days of the tables."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.pipeline.merges import expire_open_tables, open_tables, show
from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.clock import SystemClock

if TYPE_CHECKING:
    from broker_ctl.pipeline.merging import Merged

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline expire tables --older-than 90
  broker-ctl pipeline expire tables --older-than 30 --output json
"""


@click.command(name="expire", short_help="Delete old days of the tables.", epilog=_EXAMPLES)
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
def command(engine: Engine, tables: str, days: int) -> None:
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
