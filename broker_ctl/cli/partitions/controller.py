"""``broker-ctl controller``: the partition controller."""

from typing import Final

import click

from broker_ctl.cli.partitions.params import PARTITIONS
from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLE: Final = """\b
Examples:
  broker-ctl controller show
"""


@click.group(cls=VerbGroup, short_help="Show the partition controller.", epilog=_EXAMPLE)
def command() -> None:
    """Show the partition controller: the broker that elects the leaders of partitions."""


@command.command(epilog=_EXAMPLE)
@daemon_options
def show(target: Target) -> None:
    """Show the controller, its epoch, brokers by id, and the number of unhealthy partitions."""
    found = target.run(lambda client: client.get(f"{PARTITIONS}/controller"))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)
