"""``broker-ctl pipeline compact``: merge small files of the tables."""

from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.pipeline.merges import open_tables, rewrite_open_tables, show
from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar

if TYPE_CHECKING:
    from broker_ctl.pipeline.merging import Merged

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline compact tables
  broker-ctl pipeline compact hdfs:///tables --master yarn --output json
"""


@click.command(name="compact", short_help="Merge small files of the tables.", epilog=_EXAMPLES)
@click.argument("tables")
@engine_options
def command(engine: Engine, tables: str) -> None:
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
