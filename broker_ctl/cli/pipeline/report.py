"""``broker-ctl pipeline report``: a cluster's history as one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import atomic_output, echo_json, print_table
from broker_ctl.cli.runtime.verbs import needing

if TYPE_CHECKING:
    from broker_ctl.pipeline.report.values import Report

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline report /data/profiles --tables /data/tables --to report.html
  broker-ctl pipeline report profiles --tables tables --backtest backtest --to report.html
  broker-ctl pipeline report profiles --cluster east --to east.html --json east-numbers.json
"""


@click.command(
    name="report", short_help="Write an HTML report of a cluster's history.", epilog=_EXAMPLES
)
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
    # Before Spark runs: without the extra the report cannot be drawn.
    with needing("pipeline", "the report"):
        from broker_ctl.pipeline.report.job import SECTIONS, report
        from broker_ctl.pipeline.report.page import page
        from broker_ctl.pipeline.report.source import Places
    with engine.running() as spark:
        places = Places(profiles, tables and engine.location(tables), backtest)
        done: Report | None = None
        with progress_bar(engine, "looking for the cluster") as update:
            for section, done in report(spark, places, cluster):
                update(section.title, len(done.sections), len(SECTIONS))
    if done is not None:
        _write(done.to_row(), page(done), target, beside)
        _show(engine, done, target, beside)


def _write(row: dict[str, Any], page: str, target: Path, numbers: Path) -> None:
    from broker_ctl.codec import encode_pretty

    with atomic_output(numbers) as file:
        file.write_bytes(encode_pretty(row) + b"\n")
    with atomic_output(target) as file:
        file.write_text(page, encoding="utf-8")


def _show(engine: Engine, report: "Report", target: Path, numbers: Path) -> None:
    if engine.is_json:
        echo_json(
            {
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
        )
        return
    rows = (
        (each.title, each.rows, " ".join(missing.what for missing in each.missing))
        for each in report.sections
    )
    print_table(f"Cluster {report.cluster}: {target}", ("section", "rows", "missing"), rows)
