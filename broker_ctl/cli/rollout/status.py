"""``broker-ctl rollout status``, ``pause`` and ``abort``."""

from typing import Any, Final

import click

from broker_ctl.cli.rollout.progress import print_rollout
from broker_ctl.cli.rollout.scope import PATH
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    check_and_confirm,
    reason_option,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo_json
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.units import duration_text

_STATUS_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout status
  broker-ctl rollout status --wait
  broker-ctl rollout status --output json
"""
_PAUSE_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout pause --reason "peak hour"
"""
_ABORT_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout abort --yes
"""
_OVER: Final = frozenset({"done", "aborted", "stopped", "paused"})


@click.command(short_help="Show how far a rollout is.", epilog=_STATUS_EXAMPLES)
@click.option("--wait", is_flag=True, help="Wait until it has ended, stopped or is paused.")
@daemon_options
def status(target: Target, *, wait: bool) -> None:
    """Show the rollout in progress, or the last one: its brokers, and what each waits for."""
    row: Any
    if wait:
        row = target.run(
            lambda client: poll_until(
                target, lambda: client.get(PATH), _stage, lambda row: row["state"] in _OVER
            )
        )
    else:
        row = target.run(lambda client: client.get(PATH))
    if target.is_json:
        echo_json(row)
    else:
        print_rollout(row)


@click.command(short_help="Begin no further broker.", epilog=_PAUSE_EXAMPLES)
@reason_option
@change_options
@daemon_options
def pause(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Begin no further broker: the one in progress ends, and `rollout resume` continues."""
    _act(target, "pause", reason, dry_run=dry_run, yes=yes)


@click.command(short_help="End a rollout.", epilog=_ABORT_EXAMPLES)
@reason_option
@change_options
@daemon_options
def abort(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """End a rollout: its drains and its pause of the balancing end, nothing else restarts.

    A pause and drains that were there before stay.
    """
    _act(target, "abort", reason, dry_run=dry_run, yes=yes)


def _act(target: Target, act: str, reason: str, *, dry_run: bool, yes: bool) -> None:
    change = Change("POST", f"{PATH}/{act}", body=audit_fields(reason))
    if check_and_confirm(target, change, f"{act} the rollout", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, row["state"], f"rollout {row['id']} is {row['state']}", rollout=row)


def _stage(row: Any) -> Stage:
    words = f"{row['state']}, ETA {duration_text(row['eta_s'])}"
    return Stage(row["restarted"], len(row["brokers"]), words)
