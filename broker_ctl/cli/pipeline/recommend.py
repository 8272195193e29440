"""``broker-ctl pipeline recommend``: settings supported by a back-test, and a placement plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import atomic_output, check_new, echo_json
from broker_ctl.clock import SystemClock
from broker_ctl.codec import encode_pretty
from broker_ctl.errors import OrderConflict, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.recommend.recommendation import Recommendation
    from broker_ctl.pipeline.recommend.usual_day import Placement

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline recommend backtest > recommended.conf
  broker-ctl pipeline recommend backtest --trace cluster:east --output json
  broker-ctl pipeline recommend --tables tables --profiles profiles --plan-to placement.json
  broker-ctl plan --from placement.json
"""


@click.command(name="recommend", epilog=_EXAMPLES)
@click.argument("backtest", required=False)
@click.option(
    "--trace", "traces", multiple=True, metavar="NAME", help="Only this trace; repeatable."
)
@click.option(
    "--profiles", metavar="DIR", help="Profiles from which the placement plan is computed."
)
@click.option("--tables", metavar="DIR", help="Tables with the current owners.")
@click.option(
    "--cluster",
    metavar="NAME",
    help="Cluster to plan for; required if the profiles cover several clusters.",
)
@click.option(
    "--plan-to",
    "plan",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json",
    help="Output file for a placement plan from the daily profile, for broker-ctl plan --from.",
)
@click.option("--force", "is_forced", is_flag=True, help="Replace an existing plan file.")
@engine_options
def command(
    engine: Engine,
    *,
    backtest: str | None,
    traces: tuple[str, ...],
    profiles: str | None,
    tables: str | None,
    cluster: str | None,
    plan: Path | None,
    is_forced: bool,
) -> None:
    """Print the lines of broker.conf that the back-test in the directory BACKTEST supports.

    A candidate is supported if its p99 imbalance or moved load is significantly better than the
    baseline's on every trace, corrected for the number of candidates, and nothing is worse. If
    there is none, only comments with the reasons are printed. The lines can be appended to a
    broker.conf that does not have these keys.

    With --plan-to, also write a placement of bundles for the typical day of the cluster. The
    leader checks that plan and may refuse it.
    """
    if backtest is None and plan is None:
        raise click.UsageError(
            "nothing to recommend from: name a directory of pipeline backtest, or use --plan-to"
        )
    if len({plan is None, profiles is None, tables is None}) > 1:
        raise click.UsageError("--plan-to, --profiles and --tables must be given together")
    if plan is not None:
        check_new(plan, "--plan-to", is_forced=is_forced)
    recommendation: Recommendation | None = None
    placement: Placement | None = None
    refusal = ""
    with engine.running() as spark, progress_bar(engine, "starting Spark") as update:
        if backtest is not None:
            recommendation = _recommend(spark, backtest, traces)
        if plan is not None and profiles is not None and tables is not None:
            update("computing the placement from the daily profile", 0, 0)
            try:
                placement = _make_placement(spark, engine.location(tables), profiles, cluster, plan)
            except PipelineError as error:
                # The settings that the back-test supports are printed nevertheless.
                refusal = str(error)
    _show(engine, recommendation, placement, refusal)
    if plan is not None and placement is not None:
        _report_plan(plan, placement)
    if refusal:
        raise click.ClickException(f"no plan was written: {refusal}")


def _recommend(spark: "SparkSession", backtest: str, traces: tuple[str, ...]) -> "Recommendation":
    from broker_ctl.pipeline.recommend.evidence import read_findings
    from broker_ctl.pipeline.recommend.recommendation import Recommendation

    return Recommendation.of(read_findings(spark, backtest), traces)


def _make_placement(
    spark: "SparkSession", tables: str, profiles: str, cluster: str | None, plan: Path
) -> "Placement":
    from broker_ctl.pipeline.recommend.usual_day import placement_of, read_usual_day

    day = read_usual_day(spark, tables, profiles, cluster)
    placement = placement_of(day, SystemClock().wall_ms())
    with atomic_output(plan) as path:
        path.write_bytes(encode_pretty(placement.file.to_row()))
    return placement


def _show(
    engine: Engine,
    recommendation: "Recommendation | None",
    placement: "Placement | None",
    refusal: str,
) -> None:
    from broker_ctl.pipeline.recommend.recommendation import fragment_of

    if engine.is_json:
        facts: dict[str, Any] = {} if recommendation is None else recommendation.to_row()
        if placement is not None:
            facts["plan"] = placement.to_row()
        if refusal:
            facts["no_plan"] = refusal
        echo_json(facts)
    elif recommendation is not None:
        click.echo(fragment_of(recommendation), nl=False)


def _report_plan(path: Path, placement: "Placement") -> None:
    """On stderr: stdout may be redirected into a broker.conf."""
    row = placement.to_row()
    click.echo(
        f"{path}: {row['moves']} of {row['bundles']} bundles of {row['cluster']} move, with"
        f" {row['moved_ratio']:.1%} of the load; largest over mean usage in the worst hour of the"
        f" day: {row['worst_hour_before']:.3f} as it is, {row['worst_hour_after']:.3f} by the plan",
        err=True,
    )
    try:
        placement.file.check(placement.file.cluster, SystemClock().wall_ms())
    except OrderConflict as error:
        click.echo(f"a leader would refuse this plan: {error}", err=True)
    else:
        click.echo(f"broker-ctl plan --from {path} has the leader check it", err=True)
