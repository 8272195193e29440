"""``broker-ctl explain``: why a broker or a bundle is treated as it is."""

from typing import Final

import click

from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl explain broker-2:8080
  broker-ctl explain shop/orders/0x00000000_0x40000000
"""


@click.command(short_help="Show what the leader knows and why it decided.", epilog=_EXAMPLES)
@click.argument("subject", metavar="BROKER|BUNDLE")
@daemon_options
def command(target: Target, *, subject: str) -> None:
    """Show what the leader knows of a broker or a bundle, and what it last decided on it."""
    query = {"subject": subject}
    known = target.run(lambda client: client.get("/control/v1/explain", query))
    if target.is_json:
        echo_json(known)
    else:
        print_facts(subject, known)
