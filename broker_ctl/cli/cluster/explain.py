"""``broker-ctl explain``: the reasons for the decisions on a broker or a bundle."""

from typing import Final

import click

from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl explain broker-2:8080
  broker-ctl explain shop/orders/0x00000000_0x40000000
"""


@click.command(short_help="Show why the leader decided as it did.", epilog=_EXAMPLES)
@click.argument("subject", metavar="BROKER|BUNDLE")
@daemon_options
def command(target: Target, *, subject: str) -> None:
    """Show the leader's view of a broker or a bundle, and its latest decision with the reason."""
    query = {"subject": subject}
    known = target.run(lambda client: client.get("/control/v1/explain", query))
    if target.is_json:
        echo_json(known)
    else:
        print_facts(subject, known)
