"""``broker-ctl rollout rollback``: restart once more what a rollout has restarted."""

from collections.abc import Mapping
from typing import Any, Final

import click

from broker_ctl.cli.rollout.hook_options import hook_of, hook_options
from broker_ctl.cli.rollout.run import drive
from broker_ctl.cli.rollout.scope import PATH, scope_body
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    check_and_confirm,
    reason_option,
    send,
)
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout rollback --restart-command "ssh {host} install-earlier-release"
"""
# A broker in one of these may run what the rollout has brought.
_TOUCHED: Final = frozenset({"restarting", "checking", "done", "failed"})
_OVER: Final = frozenset({"done", "aborted"})


@click.command("rollback", short_help="Restart again what has restarted.", epilog=_EXAMPLES)
@hook_options
@click.option("--accept-overload", is_flag=True, help="Begin though the rest carries too much.")
@reason_option
@change_options
@daemon_options
def command(
    target: Target,
    /,
    *,
    accept_overload: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
    **hook: Any,
) -> None:
    """End the rollout, and restart the brokers that it has restarted, as carefully as before.

    What brings the earlier version back is the restart command, or what you installed or applied
    before this command.
    """
    restarting = hook_of(hook)
    row = target.run(lambda client: client.get(PATH))
    names = [each["broker"] for each in row["brokers"] if each["state"] in _TOUCHED]
    if not names:
        raise click.ClickException(
            f"rollout {row['id']} has restarted no broker; broker-ctl rollout abort ends it"
        )
    by = audit_fields(reason)
    again = Change(
        "PUT",
        PATH,
        body={**scope_body(",".join(names), "1", ""), "accept_overload": accept_overload, **by},
    )
    is_over = row["state"] in _OVER
    first = again if is_over else Change("POST", f"{PATH}/abort", body=by)
    sentence = f"restart {len(names)} brokers again: {', '.join(names)}"
    if not check_and_confirm(target, first, sentence, dry_run=dry_run, yes=yes):
        return
    send(target, first)
    if not is_over:
        _wait_aborted(target)
        send(target, again)
    drive(target, restarting)


def _wait_aborted(target: Target) -> None:
    def stage(row: Mapping[str, Any]) -> Stage:
        return Stage(row["restarted"], len(row["brokers"]), row["state"])

    target.run(
        lambda client: poll_until(
            target, lambda: client.get(PATH), stage, lambda row: row["state"] == "aborted"
        )
    )
