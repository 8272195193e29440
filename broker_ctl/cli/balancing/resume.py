"""``broker-ctl resume``: end a pause of the balancing."""

from typing import Final

import click

from broker_ctl.cli.balancing.pause import PAUSE
from broker_ctl.cli.runtime.confirmation import Audit, act_options, done, is_wanted, judged, say
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLE: Final = """\b
Examples:
  broker-ctl resume --yes
"""


@click.command(short_help="Resume automatic balancing after a pause.", epilog=_EXAMPLE)
@act_options
@daemon_options
def command(target: Target, *, dry_run: bool, yes: bool) -> None:
    """Resume automatic balancing after a pause."""
    act = Audit("DELETE", PAUSE)
    if not judged(target, act)["was_paused"]:
        say(target, "nothing", "balancing is not paused")
    elif is_wanted(target, "resume the balancing", dry_run=dry_run, yes=yes):
        done(target, act)
        say(target, "resumed", "resumed")
