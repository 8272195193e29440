"""``broker-ctl move``: the earlier name of ``broker-ctl bundles move``, for one release."""

from typing import Final

import click

from broker_ctl.cli.bundles.actions import move_bundle
from broker_ctl.cli.runtime.confirmation import act_options
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl move shop/orders/0x00000000_0x40000000 broker-2:8080
  broker-ctl move shop/orders/0x00000000_0x40000000 broker-2:8080 --dry-run
"""


@click.command(short_help="Move a bundle to a broker.", epilog=_EXAMPLES, hidden=True)
@click.argument("bundle")
@click.argument("destination", metavar="BROKER")
@act_options
@daemon_options
def command(target: Target, *, bundle: str, destination: str, dry_run: bool, yes: bool) -> None:
    """Move BUNDLE to BROKER; returns once BROKER serves it.

    A BUNDLE is tenant/namespace/0xLOW_0xHIGH, as `bundles list` prints it. Pauses and
    budgets do not apply. Renamed `bundles move`; this name ends with the next release.
    """
    click.echo("broker-ctl move is called broker-ctl bundles move: use that name", err=True)
    move_bundle(target, bundle, destination, dry_run=dry_run, yes=yes)
