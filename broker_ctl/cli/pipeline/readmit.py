"""``broker-ctl pipeline readmit``: take in again what stands in quarantine."""

from typing import Final

import click

from broker_ctl.cli.pipeline.merges import open_tables
from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.errors import PipelineError

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline readmit tables
  broker-ctl pipeline readmit tables --config pipeline.conf --output json
"""


@click.command(name="readmit", short_help="Judge the quarantine again.", epilog=_EXAMPLES)
@click.argument("tables")
@engine_options
def command(engine: Engine, tables: str) -> None:
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
