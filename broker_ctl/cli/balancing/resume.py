"""``broker-ctl resume``: the end of a pause."""

from typing import Final

import click

from broker_ctl.cli.balancing.pause import PAUSE
from broker_ctl.cli.runtime.confirmation import Audit, act_options, done, is_wanted, judged, say
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLE: Final = """\b
Examples:
  broker-ctl resume --yes
"""


@click.command(short_help="Let the leader work again after a pause.", epilog=_EXAMPLE)
@act_options
@daemon_options
def command(target: Target, *, dry_run: bool, yes: bool) -> None:
    """Let the leader work again after a pause."""
    act = Audit("DELETE", PAUSE)
    if not judged(target, act)["was_paused"]:
        say(target, "nothing", "there is no pause")
    elif is_wanted(target, "resume the balancing", dry_run=dry_run, yes=yes):
        done(target, act)
        say(target, "resumed", "resumed")
