"""``broker-ctl pause`` and ``resume``: no automatic balancing in between."""

from typing import Final

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    check_and_confirm,
    confirm,
    reason_option,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options

_PAUSE: Final = "/control/v1/pause"
_PAUSE_EXAMPLES: Final = """\b
Examples:
  broker-ctl pause --reason "network maintenance until 14:00"
  broker-ctl pause --yes
  broker-ctl resume
"""
_RESUME_EXAMPLES: Final = """\b
Examples:
  broker-ctl resume --yes
"""


@click.command(short_help="Pause automatic balancing.", epilog=_PAUSE_EXAMPLES)
@reason_option
@change_options
@daemon_options
def pause(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Pause automatic balancing: decisions are recorded, but nothing moves, splits or merges.

    Moves, drains and approved plans of operators continue, and bundles without an owner are placed.
    The pause survives leader changes and restarts; a second pause changes nothing.
    """
    state = target.run(lambda client: client.get(_PAUSE))
    if state["paused"]:
        by = f" by {state['by']}" if state["by"] else ""
        why = f": {state['reason']}" if state["reason"] else ""
        report_result(target, "paused_already", f"already paused{by}{why}", pause=state)
        return
    change = Change("PUT", _PAUSE, body=audit_fields(reason))
    if check_and_confirm(target, change, "pause the balancing", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, "paused", "paused until broker-ctl resume", pause=row)


@click.command(short_help="Resume automatic balancing after a pause.", epilog=_RESUME_EXAMPLES)
@change_options
@daemon_options
def resume(target: Target, *, dry_run: bool, yes: bool) -> None:
    """Resume automatic balancing after a pause."""
    change = Change("DELETE", _PAUSE)
    if not send_dry_run(target, change)["was_paused"]:
        report_result(target, "nothing", "balancing is not paused")
    elif confirm(target, "resume the balancing", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "resumed", "resumed")
