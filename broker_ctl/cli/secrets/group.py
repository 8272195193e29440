"""``broker-ctl secrets``: the files of secrets and certificates of a configuration."""

from typing import Final

import click

from broker_ctl.cli.runtime.verb_help import VerbGroup
from broker_ctl.cli.secrets.check import command as check

# \b keeps click from joining the lines.
_EXAMPLES: Final = """\b
Examples:
  broker-ctl secrets check --config /etc/broker-ctl/broker.conf
"""


@click.group(cls=VerbGroup, name="secrets", epilog=_EXAMPLES)
def command() -> None:
    """Files of secrets and certificates that a configuration names."""


command.add_command(check, "check")
