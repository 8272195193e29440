"""``broker-ctl pipeline size``: brokers for the weekly peak of a cluster's history."""

from typing import Final

import click

from broker_ctl.cli.balancing.size_options import rules_of, size_options
from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.runtime.output import echo_json

_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline size profiles
  broker-ctl pipeline size profiles --cluster east --growth 30 --domains 3
  broker-ctl pipeline size profiles --output json
"""


@click.command(name="size", short_help="Advise on the size for the weekly peak.", epilog=_EXAMPLES)
@click.argument("profiles")
@click.option("--cluster", metavar="NAME", help="Required if the profiles cover several clusters.")
@size_options
@engine_options
def command(
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
    from broker_ctl.cli.balancing.size_table import print_size, size_row
    from broker_ctl.pipeline.recommend.daily_peaks import read_day_loads

    with engine.running() as spark, progress_bar(engine, "starting Spark") as update:
        update("reading the hours of the bundles", 0, 0)
        found, days = read_day_loads(spark, profiles, cluster)
    row = size_row(found, days, rules_of(growth_percent, domains, limit_percent))
    if engine.is_json:
        echo_json(row)
    else:
        print_size(row)
