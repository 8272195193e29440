"""``broker-ctl rollout``: restart every broker of a cluster, one after the other."""

from typing import Final

import click

from broker_ctl.cli.rollout.plan import command as plan
from broker_ctl.cli.rollout.rollback import command as rollback
from broker_ctl.cli.rollout.run import resume, run
from broker_ctl.cli.rollout.status import abort, pause, status
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout plan
  broker-ctl rollout run --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout status --wait
"""


@click.group(cls=VerbGroup, short_help="Restart all brokers in turn.", epilog=_EXAMPLES)
def command() -> None:
    """Restart or upgrade every broker of a cluster without an outage."""


for verb in (plan, run, status, pause, resume, abort, rollback):
    command.add_command(verb)
