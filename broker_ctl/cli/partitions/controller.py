"""``broker-ctl controller``: who controls replicated partitions."""

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


@click.group(cls=VerbGroup, short_help="Show who controls replicated partitions.", epilog=_EXAMPLE)
def command() -> None:
    """Ask for the controller: the broker that elects the leaders of replicated partitions."""


@command.command(epilog=_EXAMPLE)
@daemon_options
def show(target: Target) -> None:
    """Show the controller, its epoch, brokers by number, and how many partitions are not well."""
    found = target.run(lambda client: client.get(f"{PARTITIONS}/controller"))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)
