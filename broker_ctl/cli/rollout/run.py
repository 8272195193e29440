"""``broker-ctl rollout run`` and ``resume``: begin a rollout, or drive one that has begun."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.rollout.hook_options import hook_of, hook_options
from broker_ctl.cli.rollout.progress import Progress, print_rollout
from broker_ctl.cli.rollout.scope import PATH, scope_body, scope_options
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    confirm,
    reason_option,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.units import duration_text, percent_text

if TYPE_CHECKING:
    from broker_ctl.cli.rollout.hooks import RestartHook

_GATE_S: Final = 300
_RUN_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout run --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout run --canary broker-3:8080 --wanted-version 4.2.0 --systemd broker-ctl
  broker-ctl rollout run --kubernetes --statefulset broker --reason "new image"
  broker-ctl rollout run --brokers 127.0.0.1:8080 --systemd broker-ctl.service
"""
_RESUME_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout resume --restart-command "ssh {host} sudo systemctl restart broker-ctl"
"""


@click.command("run", short_help="Restart all brokers in turn.", epilog=_RUN_EXAMPLES)
@scope_options
@hook_options
@click.option("--wanted-version", default="", help="Version that a restarted broker has to run.")
@click.option(
    "--gate-timeout",
    type=click.IntRange(1, 86_400),
    default=_GATE_S,
    show_default=True,
    metavar="SECONDS",
    help="Stop the rollout if a restarted broker is not well after this time.",
)
@click.option("--accept-overload", is_flag=True, help="Begin though the rest carries too much.")
@reason_option
@change_options
@daemon_options
def run(
    target: Target,
    /,
    *,
    brokers: str,
    max_unavailable: str,
    canary: str,
    wanted_version: str,
    gate_timeout: int,
    accept_overload: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
    **hook: Any,
) -> None:
    """Restart every broker: drain it, restart it, wait until it is well, give bundles back.

    The leader pauses the balancing, drains and checks; this command runs the restarts, on this
    machine and as this user. If it is killed, `rollout resume` continues. A gate that does not open
    stops the rollout with the reason; the balancing then goes on until `resume` or `abort`.
    """
    restarting = hook_of(hook)
    body = {
        **scope_body(brokers, max_unavailable, canary),
        "version": wanted_version,
        "gate_timeout_s": gate_timeout,
        "accept_overload": accept_overload,
        **audit_fields(reason),
    }
    change = Change("PUT", PATH, body=body)
    found = send_dry_run(target, change)
    if confirm(target, _sentence(found), dry_run=dry_run, yes=yes, plan=found):
        send(target, change)
        drive(target, restarting)


@click.command("resume", short_help="Continue a rollout.", epilog=_RESUME_EXAMPLES)
@hook_options
@reason_option
@change_options
@daemon_options
def resume(
    target: Target,
    /,
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
    **hook: Any,
) -> None:
    """Continue a rollout that was paused, has stopped, or whose driver is gone.

    A broker whose restart failed is drained and restarted once more.
    """
    restarting = hook_of(hook)
    change = Change("POST", f"{PATH}/resume", body=audit_fields(reason))
    found = send_dry_run(target, change)
    if confirm(target, f"continue rollout {found['id']}", dry_run=dry_run, yes=yes, rollout=found):
        send(target, change)
        drive(target, restarting)


def drive(target: Target, hook: "RestartHook") -> None:
    """Restart what the leader empties until the rollout ends or stops, and print the result."""
    import asyncio

    from broker_ctl.cli.rollout.driver import Driver

    progress = Progress(target)
    row = asyncio.run(Driver(target, hook, progress.show).run())
    if not target.is_json:
        print_rollout(row)
    if row["state"] != "done":
        raise click.ClickException(
            f"rollout {row['id']} is {row['state']}: {row['note'] or 'by an operator'}; "
            "broker-ctl rollout resume continues it, abort ends it"
        )
    sentence = f"all {len(row['brokers'])} brokers have restarted with {row['moves']} moves"
    report_result(target, "done", sentence, rollout=row)


def _sentence(found: Mapping[str, Any]) -> str:
    brokers = sum(len(batch["brokers"]) for batch in found["batches"])
    usage = found["highest_usage_ratio"]
    most = "more than a broker has" if usage is None else percent_text(usage)
    return (
        f"restart {brokers} brokers in {len(found['batches'])} steps with {found['moves']} moves "
        f"(at least {found['least_moves']}), in about {duration_text(found['duration_s'])}, "
        f"greatest load {most}"
    )
