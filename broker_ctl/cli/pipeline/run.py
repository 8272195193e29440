"""``broker-ctl pipeline run``: from a history to its report in one Spark session."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.advise import print_size, rules_of, size_options
from broker_ctl.cli.pipeline.profile import make_profiles, show_profiles
from broker_ctl.cli.pipeline.report import (
    draw_report,
    report_facts,
    require_drawing,
    show_report,
    write_report,
)
from broker_ctl.cli.pipeline.spark import Engine, engine_options
from broker_ctl.cli.pipeline.synth import advise_size
from broker_ctl.cli.pipeline.tables import ingest_history, show_ingested
from broker_ctl.cli.runtime.output import echo_json

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline run /var/lib/broker-ctl/history --to study
  broker-ctl pipeline run history --to study --cluster east --growth 30 --domains 3
  broker-ctl pipeline run history --to study --tables /data/tables --output json
"""


@click.command(name="run", epilog=_EXAMPLES)
@click.argument("history")
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for tables, profiles, report.html and report.json; made if it is absent.",
)
@click.option("--tables", metavar="DIR", help="Tables elsewhere.  [default: tables below --to]")
@click.option("--cluster", metavar="NAME", help="Required if the history covers several clusters.")
@size_options
@engine_options
def command(
    engine: Engine,
    *,
    history: str,
    target: Path,
    tables: str | None,
    cluster: str | None,
    growth_percent: int,
    domains: int,
    limit_percent: int,
) -> None:
    """Do what ingest, profile, size and report do one after the other, and start Spark once.

    Run it again as the history grows: segments are taken in once, and days that are profiled are
    read again only if lines came to them. On a cluster of Spark, --to has to be a directory that
    all workers see.
    """
    require_drawing()
    rules = rules_of(growth_percent, domains, limit_percent)
    source, profiles = tables or str(target / "tables"), str(target / "profiles")
    page, numbers = target / "report.html", target / "report.json"
    with engine.running() as spark:
        ingested = ingest_history(engine, spark, history, source)
        if not engine.is_json:
            show_ingested(ingested)
        rows = make_profiles(engine, spark, source, profiles)
        if not engine.is_json:
            show_profiles(rows)
        size = advise_size(engine, spark, profiles, cluster, rules)
        if not engine.is_json:
            print_size(size)
        target.mkdir(parents=True, exist_ok=True)
        report = draw_report(engine, spark, profiles, cluster, tables=source)
    write_report(report, page, numbers)
    if engine.is_json:
        facts = report_facts(report, page, numbers)
        echo_json({"ingest": ingested, "profile": rows, "size": size, "report": facts})
    else:
        show_report(report, page)
