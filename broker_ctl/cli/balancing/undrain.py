"""``broker-ctl undrain``: end the drain of a broker."""

from typing import Final

import click

from broker_ctl.cli.balancing.drains import drain_path
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
  broker-ctl undrain broker-2:8080
"""


@click.command(short_help="End the drain of a broker.", epilog=_EXAMPLE)
@click.argument("broker")
@change_options
@daemon_options
def command(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """End the drain of BROKER: it receives bundles again, not necessarily the same ones."""
    change = Change("DELETE", drain_path(broker))
    if not send_dry_run(target, change)["was_drained"]:
        report_result(target, "nothing", f"{broker} is not being drained")
    elif confirm(target, f"undrain {broker}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "undrained", f"{broker} receives bundles again")
