"""``broker-ctl audit``: checks and shows the audit log of a daemon on this machine."""

from typing import Final

import click

from broker_ctl.cli.audit.tail import command as tail
from broker_ctl.cli.audit.verify import command as verify
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit verify audit.log.2 audit.log.1 audit.log
  broker-ctl audit tail --follow audit.log
"""


@click.group(cls=VerbGroup, short_help="Verify or show an audit log.", epilog=_EXAMPLES)
def command() -> None:
    """Check and show the files that a daemon writes with auditFile."""


command.add_command(verify)
command.add_command(tail)
