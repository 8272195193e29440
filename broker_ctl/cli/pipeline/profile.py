"""``broker-ctl pipeline profile``: what the tables of a history say."""

from dataclasses import replace
from typing import Final

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, shown
from broker_ctl.cli.runtime.output import echo_json, print_table

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline profile /data/tables --to /data/profiles
  broker-ctl pipeline profile tables --to profiles --only hour_profiles --days 14
  broker-ctl pipeline profile tables --to profiles --only hot_bundles --only shape_advice
"""


@click.command(name="profile", short_help="Make profiles of a history.", epilog=_EXAMPLES)
@click.argument("tables")
@click.option("--to", "target", required=True, metavar="DIR", help="Where the profiles go.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this one, and what it is made of; repeatable.",
)
@click.option(
    "--days", type=click.IntRange(min=1), help="Days that a usual day is made of.  [default: 7]"
)
@engine_options
def command(
    engine: Engine, tables: str, target: str, only: tuple[str, ...], days: int | None
) -> None:
    """Make profiles of what was taken into TABLES: Parquet files, a directory each.

    \b
    load_skew         how even the brokers were, cycle by cycle
    bundle_hours      the load of each bundle, hour by hour
    hour_profiles     a usual day of each bundle: medians by hour over the newest days
    weekday_profiles  a usual week of each bundle
    hot_bundles       those that carry most
    hot_topics        bundles whose topics carry most each, or could not be cut
    ownership_churn   bundles that changed hands, by hour and cause
    moved_load        what the leader moved, by hour and reason
    unload_effects    the brokers before and after each unload
    session_counts    what befell the sessions of the brokers, by day
    leadings          who led, from when to when, and how long nobody did
    handovers         how long bundles were nobody's
    capacity_fit      what brokers can take, against what they say of themselves
    shape_advice      bundles to split, and bundles to merge
    forecast_errors   how well yesterday and the usual day foretell a bundle's load
    """  # noqa: D301  a mark of click's: these lines stay as they are
    with engine.running() as spark:
        from broker_ctl.pipeline.profile import RESULTS, ProfileRules, profile, select_results

        results = select_results(only or tuple(RESULTS))
        settings = engine.settings if days is None else replace(engine.settings, days=days)
        rules = ProfileRules(
            days=settings.days,
            hot=settings.hot_bundles,
            window_min=settings.unload_window_minutes,
            split_ratio=settings.split_percent / 100,
            merge_ratio=settings.merge_percent / 100,
        )
        made = []
        with shown(engine, results[0].table.name) as tell:
            tell(results[0].table.name, 0, len(results))
            for each in profile(spark, tables, target, results, rules):
                made.append(each)
                tell(each.name, len(made), len(results))
    if engine.is_json:
        echo_json({each.name: each.rows for each in made})
    else:
        grains = {result.table.name: result.table.grain for result in results}
        print_table(
            "",
            ("profile", "rows", "what"),
            ((each.name, each.rows, grains[each.name]) for each in made),
        )
