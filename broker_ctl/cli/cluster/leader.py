"""``broker-ctl leader``: who leads."""

from typing import Final

import click

from broker_ctl.cli.runtime.output import echo_json
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLE: Final = """\b
Examples:
  broker-ctl leader
"""


@click.command(short_help="Show which broker leads.", epilog=_EXAMPLE)
@daemon_options
def command(target: Target) -> None:
    """Show which broker leads: it places, sheds and splits the bundles of all."""
    leader = target.run(lambda client: client.get("/admin/v2/brokers/leaderBroker"))
    if target.is_json:
        echo_json(leader)
    else:
        click.echo(f"{leader['brokerId']}  {leader['serviceUrl']}")
