"""``broker-ctl resume``: end a pause of the balancing."""

from typing import Final

import click

from broker_ctl.cli.balancing.pause import PAUSE
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLE: Final = """\b
Examples:
  broker-ctl resume --yes
"""


@click.command(short_help="Resume automatic balancing after a pause.", epilog=_EXAMPLE)
@change_options
@daemon_options
def command(target: Target, *, dry_run: bool, yes: bool) -> None:
    """Resume automatic balancing after a pause."""
    change = Change("DELETE", PAUSE)
    if not send_dry_run(target, change)["was_paused"]:
        report_result(target, "nothing", "balancing is not paused")
    elif confirm(target, "resume the balancing", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "resumed", "resumed")
