"""``broker-ctl advise``: what the cluster should be like."""

from typing import Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl advise size
  broker-ctl advise size --growth 30
  broker-ctl advise size --output json
"""


@click.group(cls=VerbGroup, short_help="Advise on the size of the cluster.", epilog=_EXAMPLES)
def command() -> None:
    """Advise on the cluster, by the load that the leader sees."""


@command.command(epilog=_EXAMPLES)
@click.option(
    "--growth",
    "growth_percent",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="Assume that the load grows by so much.",
)
@daemon_options
def size(target: Target, *, growth_percent: int) -> None:
    """Show how many brokers the load needs, now and after a loss.

    No broker shall exceed loadBalancerHeadroomLimitPercentage, even after the loss of the largest
    broker, or of a whole failure domain if there are at least two. Numbers are of brokers of the
    mean size. They are lower bounds: large bundles and policies may need more.

    The advice is for the load of this moment. For the weekly peak, take the maximum of the metric
    broker_ctl_recommended_brokers over seven days.
    """
    query = {"growth_percent": str(growth_percent)} if growth_percent else {}
    advice = target.run(lambda client: client.get("/control/v1/advice/size", query))
    if target.is_json:
        echo_json(advice)
        return
    sentence = advice.pop("sentence")
    print_facts("size", advice)
    echo(sentence)
