"""``broker-ctl pause``: no automatic balancing until ``resume``."""

from typing import Final

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    check_and_confirm,
    reason_option,
    report_result,
    send,
)
from broker_ctl.cli.runtime.target import Target, daemon_options

PAUSE: Final = "/control/v1/pause"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl pause --reason "network maintenance until 14:00"
  broker-ctl pause --yes
  broker-ctl resume
"""


@click.command(short_help="Pause automatic balancing.", epilog=_EXAMPLES)
@reason_option
@change_options
@daemon_options
def command(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Pause automatic balancing: decisions are recorded, but nothing moves, splits or merges.

    Moves, drains and approved plans of operators continue, and bundles without an owner are placed.
    The pause survives leader changes and restarts; a second pause changes nothing.
    """
    stands = target.run(lambda client: client.get(PAUSE))
    if stands["paused"]:
        by = f" by {stands['by']}" if stands["by"] else ""
        why = f": {stands['reason']}" if stands["reason"] else ""
        report_result(target, "paused_already", f"paused already{by}{why}", pause=stands)
        return
    change = Change("PUT", PAUSE, body=audit_fields(reason))
    if check_and_confirm(target, change, "pause the balancing", dry_run=dry_run, yes=yes):
        pause = send(target, change).json()
        report_result(target, "paused", "paused until broker-ctl resume", pause=pause)
