"""``broker-ctl pipeline report``: a cluster's history as one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import atomic_output, echo_json, print_table
from broker_ctl.cli.runtime.verbs import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.report.values import Report

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline report /data/profiles --tables /data/tables --to report.html
  broker-ctl pipeline report profiles --tables tables --backtest backtest --to report.html
  broker-ctl pipeline report profiles --cluster east --to east.html --json east-numbers.json
"""


@click.command(name="report", epilog=_EXAMPLES)
@click.argument("profiles")
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output HTML file; an existing one is replaced.",
)
@click.option(
    "--json",
    "numbers",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output JSON file with the same numbers.  [default: as --to, with .json]",
)
@click.option(
    "--tables",
    metavar="DIR",
    help="Tables of `ingest`, for broker load, what-if analysis and the quarantine.",
)
@click.option("--backtest", metavar="DIR", help="Results of `backtest`.")
@click.option(
    "--cluster",
    metavar="NAME",
    help="Cluster to report on; required if the profiles cover several clusters.",
)
@engine_options
def command(
    engine: Engine,
    *,
    profiles: str,
    target: Path,
    numbers: Path | None,
    tables: str | None,
    backtest: str | None,
    cluster: str | None,
) -> None:
    """Write an HTML report of one cluster from the directory PROFILES.

    \b
    Broker load and imbalance over time; the hottest bundles by hour; ownership changes and their
    reasons; what-if analyses (fewer or more brokers, a tenant that doubles); back-test; advice;
    sessions and failovers; unreadable lines. The file is self-contained and runs no script. A
    missing section names the command that produces its data.
    """  # noqa: D301  a mark of click's: these lines stay as they are
    beside = numbers or target.with_suffix(".json")
    if beside == target:
        raise click.BadParameter(f"{target} is the file of the page", param_hint="'--json'")
    for path, option in ((target, "--to"), (beside, "--json")):
        if not path.parent.is_dir():
            raise click.BadParameter(f"{path}: no such directory", param_hint=f"'{option}'")
    require_drawing()
    with engine.running() as spark:
        done = draw_report(engine, spark, profiles, cluster, tables=tables, backtest=backtest)
    write_report(done, target, beside)
    if engine.is_json:
        echo_json(report_facts(done, target, beside))
    else:
        show_report(done, target)


def require_drawing() -> None:
    """Fail before Spark runs if the report could not be drawn.

    Raises:
        click.ClickException: the extra is not installed.
    """
    with needing("pipeline", "the report"):
        import broker_ctl.pipeline.report.page  # noqa: F401  whether it can be imported


def draw_report(
    engine: Engine,
    spark: "SparkSession",
    profiles: str,
    cluster: str | None,
    *,
    tables: str | None,
    backtest: str | None = None,
) -> "Report":
    """Read what a report shows, with progress."""
    from broker_ctl.pipeline.report.job import SECTIONS, report
    from broker_ctl.pipeline.report.source import Places

    places = Places(profiles, tables and engine.location(tables), backtest)
    done: Report | None = None
    with progress_bar(engine, "looking for the cluster") as update:
        for section, done in report(spark, places, cluster):
            update(section.title, len(done.sections), len(SECTIONS))
    assert done is not None, "there are sections"
    return done


def write_report(report: "Report", target: Path, numbers: Path) -> None:
    """Write the page, and its numbers as JSON."""
    from broker_ctl.codec import encode_pretty
    from broker_ctl.pipeline.report.page import page

    with atomic_output(numbers) as file:
        file.write_bytes(encode_pretty(report.to_row()) + b"\n")
    with atomic_output(target) as file:
        file.write_text(page(report), encoding="utf-8")


def report_facts(report: "Report", target: Path, numbers: Path) -> dict[str, Any]:
    """Where it is, and what it has, in JSON values."""
    return {
        "cluster": report.cluster,
        "page": str(target),
        "numbers": str(numbers),
        "sections": {each.name: each.rows for each in report.sections},
        "missing": {
            section.name: [f"{each.what} {each.command}" for each in section.missing]
            for section in report.sections
            if section.missing
        },
    }


def show_report(report: "Report", target: Path) -> None:
    """Print that for people."""
    rows = (
        (each.title, each.rows, " ".join(missing.what for missing in each.missing))
        for each in report.sections
    )
    print_table(f"Cluster {report.cluster}: {target}", ("section", "rows", "missing"), rows)
