"""pipeline synth and size: histories that are made up, and how large one becomes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.advise import print_size, rules_of, size_options, size_row
from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import echo_json, print_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.core.planning.size import SizeRules
    from broker_ctl.pipeline.synthesis.shards import WrittenShard


# ``broker-ctl pipeline size``: brokers for the weekly peak of a cluster's history.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline size profiles
  broker-ctl pipeline size profiles --cluster east --growth 30 --domains 3
  broker-ctl pipeline size profiles --output json
"""


@click.command(name="size", epilog=_EXAMPLES)
@click.argument("profiles")
@click.option("--cluster", metavar="NAME", help="Required if the profiles cover several clusters.")
@size_options
@engine_options
def size(
    engine: Engine,
    *,
    profiles: str,
    cluster: str | None,
    growth_percent: int,
    domains: int,
    limit_percent: int,
) -> None:
    """Advise on the size of a cluster by its history, and back-test the advice.

    PROFILES is a directory of broker-ctl pipeline profile. The advice is for the fullest hour of
    the last seven days, with the loss of one broker, or of a whole failure domain with --domains.
    Then the advice of each day is judged by the next day: whether the advised brokers, less those
    that may be lost, carried its peak, and how many of them it did not need. Advice for the peak
    of the day alone is judged beside it.
    """
    rules = rules_of(growth_percent, domains, limit_percent)
    with engine.running() as spark:
        row = advise_size(engine, spark, profiles, cluster, rules)
    if engine.is_json:
        echo_json(row)
    else:
        print_size(row)


def advise_size(
    engine: Engine, spark: "SparkSession", profiles: str, cluster: str | None, rules: "SizeRules"
) -> dict[str, Any]:
    """The advice by profiles, and its back-test, in JSON values."""
    from broker_ctl.pipeline.recommend.evidence import read_day_loads

    with progress_bar(engine, "starting Spark") as update:
        update("reading the hours of the bundles", 0, 0)
        found, days = read_day_loads(spark, profiles, cluster)
    return size_row(found, days, rules)


# ``broker-ctl pipeline synth``: synthesise a history of any size from scenarios.


_DAY_HOURS: Final = 24
_SYNTH_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline synth history
  broker-ctl pipeline synth history --scenario diurnal --hours 168
  broker-ctl pipeline synth history --rows 10000000 --hours 96 --seed 7
"""


@click.command(name="synth", epilog=_SYNTH_EXAMPLES)
@click.argument("history", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--scenario", "names", multiple=True, metavar="NAME", help="Only this scenario; repeatable."
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    help=(
        "Minimum number of bundle load rows; clusters are added until it is reached.  "
        "[default: one cluster per scenario]"
    ),
)
@click.option("--hours", type=click.IntRange(min=1), default=24, show_default=True)
@click.option("--brokers", type=click.IntRange(min=2), default=10, show_default=True)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Seed; 0: the seeds of the scenarios.  [default: 0]",
)
@click.option(
    "--start",
    type=click.DateTime(["%Y-%m-%d"]),
    default="2026-01-05",
    show_default=True,
    help="First day, UTC.",
)
@engine_options
def synth(
    engine: Engine,
    *,
    history: Path,
    names: tuple[str, ...],
    rows: int | None,
    hours: int,
    brokers: int,
    seed: int,
    start: datetime,
) -> None:
    """Write segments of a synthetic history into the directory HISTORY.

    Each cluster is a scenario (broker-ctl simulate --list) replayed under the default planner; the
    rows are those that its daemons would write every minute. With --rows, up to four clusters share
    one replay and differ only in name. The same arguments write the same history. Over more than a
    day, only scenarios with a daily pattern are used. HISTORY must be empty or absent, and visible
    to all workers.
    """
    from broker_ctl.pipeline.synthesis.shards import Extent, shards_of
    from broker_ctl.simulation.scenarios import NAMES, is_daily

    for name in names:
        if name not in NAMES:
            raise click.BadParameter(
                f"{name!r}; one of {', '.join(NAMES)}", param_hint="--scenario"
            )
    chosen = names or tuple(name for name in NAMES if hours <= _DAY_HOURS or is_daily(name))
    extent = Extent(chosen, rows, hours, brokers, seed)
    start_ms = round(start.replace(tzinfo=UTC).timestamp() * 1000)
    shards = shards_of(extent, start_ms, _empty(history))
    with engine.running() as spark:
        from broker_ctl.pipeline.synthesis.shards import synthesise

        written = []
        clusters = sum(len(shard.clusters) for shard in shards)
        with progress_bar(engine, f"{clusters} clusters") as update:
            for each in synthesise(spark, shards):
                written.append(each)
                done = sum(one.clusters for one in written)
                update(f"{done} of {clusters} clusters", done, clusters)
    facts = _facts(written)
    if engine.is_json:
        echo_json(facts)
    else:
        print_facts("", facts)


def _facts(written: Sequence["WrittenShard"]) -> dict[str, int]:
    return {
        "clusters": sum(each.clusters for each in written),
        "segments": sum(each.files for each in written),
        "lines": sum(each.lines for each in written),
        "rows": sum(each.rows for each in written),
        "bundle_loads": sum(each.bundle_rows for each in written),
    }


def _empty(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_empty = next(directory.iterdir(), None) is None
    except OSError as error:
        raise click.ClickException(f"{directory}: {error.strerror}") from error
    if not is_empty:
        raise click.ClickException(f"{directory} is not empty: two histories would be mixed up")
    return directory.absolute()
