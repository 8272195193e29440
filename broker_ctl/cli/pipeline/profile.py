"""``broker-ctl pipeline profile``: compute profiles from the tables of a history."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.pipeline.spark import Engine, counting_bar, engine_options
from broker_ctl.cli.runtime.output import echo_json, print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline profile /data/tables --to /data/profiles
  broker-ctl pipeline profile tables --to profiles --only hour_profiles --days 14
  broker-ctl pipeline profile tables --to profiles --only hot_bundles --only shape_advice
"""


@click.command(name="profile", epilog=_EXAMPLES)
@click.argument("tables")
@click.option(
    "--to", "target", required=True, metavar="DIR", help="Output directory of the profiles."
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this profile and its inputs; repeatable.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help="Number of days from which a typical day is built.  [default: 7]",
)
@engine_options
def command(
    engine: Engine, tables: str, target: str, only: tuple[str, ...], days: int | None
) -> None:
    """Compute profiles from TABLES, as Parquet files in one directory each.

    \b
    load_skew         evenness of the brokers' load, per cycle
    bundle_hours      load of each bundle, per hour
    hour_profiles     typical day of each bundle: medians per hour over the newest days
    weekday_profiles  typical week of each bundle
    hot_bundles       bundles with the highest load
    hot_topics        bundles with the highest load per topic, or that cannot be split
    ownership_churn   changes of owner, by hour and cause
    moved_load        load moved by the leader, by hour and reason
    unload_effects    broker load before and after each unload
    session_counts    session events of the brokers, by day
    leadings          leaders with start and end, and times without a leader
    handovers         time that bundles had no owner
    capacity_fit      estimated capacity of brokers against the reported one
    shape_advice      bundles to split and bundles to merge
    forecast_errors   accuracy of yesterday and of the typical day as forecasts of a bundle's load
    """  # noqa: D301  a mark of click's: these lines stay as they are
    with engine.running() as spark:
        rows = make_profiles(engine, spark, tables, target, only=only, days=days)
    if engine.is_json:
        echo_json(rows)
    else:
        show_profiles(rows)


def make_profiles(
    engine: Engine,
    spark: "SparkSession",
    tables: str,
    target: str,
    *,
    only: tuple[str, ...] = (),
    days: int | None = None,
) -> dict[str, int]:
    """Compute profiles, with progress; their rows by name."""
    from broker_ctl.pipeline.profile import RESULTS, ProfileJobRules, profile, select_results

    results = select_results(only or tuple(RESULTS))
    settings = engine.settings if days is None else replace(engine.settings, days=days)
    rules = ProfileJobRules(
        days=settings.days,
        hot=settings.hot_bundles,
        window_min=settings.unload_window_minutes,
        split_ratio=settings.split_percent / 100,
        merge_ratio=settings.merge_percent / 100,
    )
    source, total = engine.location(tables), len(results)
    with counting_bar(engine, results[0].table.name) as count:
        made = profile(
            spark, source, target, results, rules, on_result=lambda name: count(name, total)
        )
    return {each.name: each.rows for each in made}


def show_profiles(rows: Mapping[str, int]) -> None:
    """Print them for people."""
    from broker_ctl.pipeline.profile import RESULTS

    grains = {result.table.name: result.table.grain for result in RESULTS.values()}
    print_table(
        "",
        ("profile", "rows", "what"),
        ((name, count, grains[name]) for name, count in rows.items()),
    )
