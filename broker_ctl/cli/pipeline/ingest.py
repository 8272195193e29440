"""``broker-ctl pipeline ingest``: load history segments into tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import echo_json, print_facts

if TYPE_CHECKING:
    from broker_ctl.pipeline.tables import BatchRow

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline ingest /var/lib/broker-ctl/history --tables /data/tables
  broker-ctl pipeline ingest history --tables tables --check --output json
  broker-ctl pipeline ingest history --tables tables --every 60
  broker-ctl pipeline ingest hdfs:///history --tables hdfs:///tables --master yarn
"""


@click.command(name="ingest", short_help="Load a history into tables.", epilog=_EXAMPLES)
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
def command(
    engine: Engine, history: str, tables: str, every_s: float | None, *, is_checked: bool
) -> None:
    """Load new segments of the directory HISTORY into tables partitioned by day and cluster.

    Only completed segments are read, each exactly once, even after a run that was killed. Lines
    that cannot be read, and segments larger than ingestMaxSegmentBytes after decompression, go to
    the table quarantine with file name and line number; they do not change the exit code.
    """
    batches: list[BatchRow] = []
    with engine.running() as spark:
        from broker_ctl.pipeline.checks import check_all
        from broker_ctl.pipeline.ingest import IngestRules, ingest

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
    _show(engine, batches, counts)


def _show(engine: Engine, batches: "list[BatchRow]", counts: Mapping[str, int] | None) -> None:
    names = ("segments", "unreadable", "lines", "faulty_lines", "repeated_lines", "rows")
    facts: dict[str, Any] = {"batches": len(batches)}
    facts |= {name: sum(getattr(batch, name) for batch in batches) for name in names}
    if counts is not None:
        facts["tables"] = [{"table": name, "rows": rows} for name, rows in counts.items()]
    if engine.is_json:
        echo_json(facts)
        return
    print_facts("", facts)
    if facts["faulty_lines"] or facts["unreadable"]:
        click.echo("Unreadable lines are in the table quarantine.", err=True)
