"""``broker-ctl undrain``: end the drain of a broker."""

from typing import Final

import click

from broker_ctl.cli.balancing.drains import drain_path
from broker_ctl.cli.runtime.confirmation import Audit, act_options, done, is_wanted, judged, say
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLE: Final = """\b
Examples:
  broker-ctl undrain broker-2:8080
"""


@click.command(short_help="End the drain of a broker.", epilog=_EXAMPLE)
@click.argument("broker")
@act_options
@daemon_options
def command(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """End the drain of BROKER: it receives bundles again, not necessarily the same ones."""
    act = Audit("DELETE", drain_path(broker))
    if not judged(target, act)["was_drained"]:
        say(target, "nothing", f"{broker} is not being drained")
    elif is_wanted(target, f"undrain {broker}", dry_run=dry_run, yes=yes):
        done(target, act)
        say(target, "undrained", f"{broker} receives bundles again")
