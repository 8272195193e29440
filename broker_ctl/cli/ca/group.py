"""``broker-ctl ca``: an authority for the certificates of one cluster."""

from typing import Final

import click

from broker_ctl.cli.ca.init import command as init
from broker_ctl.cli.ca.issue import command as issue
from broker_ctl.cli.ca.renew import command as renew
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca init --cluster prod --ca prod-ca
  broker-ctl ca issue --ca prod-ca --broker broker-1.example.com:8080 --out broker-1
  broker-ctl ca issue --ca prod-ca --client admin --out admin
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --force
"""


@click.group(cls=VerbGroup, short_help="Issue certificates of an own authority.", epilog=_EXAMPLES)
def command() -> None:
    """Create an authority for the certificates of one cluster, and issue and renew them.

    It is meant for those who have no other authority. Keep its directory away from the brokers:
    who has its key can be every broker and every client.
    """


for _verb in (init, issue, renew):
    command.add_command(_verb)
