"""``broker-ctl partitions reassign throttle``: the rate at which new replicas are copied."""

from collections.abc import Mapping
from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import REASSIGNMENTS, THROTTLE, Rate, count_text
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions reassign throttle 100MiB
  broker-ctl partitions reassign throttle --remove
"""


@click.command(epilog=_EXAMPLES)
@click.argument("rate", type=Rate(), required=False)
@click.option("--remove", is_flag=True, help="Copy new replicas without a limit.")
@change_options
@daemon_options
def throttle(target: Target, *, rate: int | None, remove: bool, dry_run: bool, yes: bool) -> None:
    """Change the throttle of the reassignments in progress.

    RATE is in bytes per second, such as 50MiB. Each broker sends no more than that to new replicas,
    and fetches no more for its own. The throttle goes with the last reassignment.
    """
    if (rate is None) is not remove:
        raise click.UsageError("either RATE or --remove is required")
    change = Change("POST", f"{REASSIGNMENTS}/throttle", body={THROTTLE: rate})
    result = send_dry_run(target, change)
    if confirm(target, f"copy {_change_text(result)}", dry_run=dry_run, yes=yes, **result):
        result = send(target, change).json()
        report_result(target, "throttled", f"copying {_change_text(result)}", **result)


def throttle_text(rate: int | None) -> str:
    """How fast new replicas are copied."""
    from broker_ctl.core.model.load_vector import throughput_text

    return "" if rate is None else f" at no more than {throughput_text(rate)} for each broker"


def _change_text(result: Mapping[str, Any]) -> str:
    before, after = (result[name][THROTTLE] for name in ("before", "after"))
    moving = count_text(result["reassigning"], "partition")
    was = throttle_text(before) or " without a limit"
    return f"new replicas of {moving}{throttle_text(after) or ' without a limit'}; before:{was}"
