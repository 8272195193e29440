"""``broker-ctl rollout run`` and ``resume``: begin a rollout, or drive one that has begun."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

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

V = TypeVar("V", bound=Callable[..., None])

_GATE_S: Final = 300
_RUN_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout run --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout run --canary broker-3:8080 --wanted-version 4.2.0 --systemd broker-ctl
  broker-ctl rollout run --brokers 127.0.0.1:8080 --systemd broker-ctl.service
"""
_RESUME_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout resume --restart-command "ssh {host} sudo systemctl restart broker-ctl"
"""


def hook_options(verb: V) -> V:
    """Add --restart-command, --systemd and --restart-timeout."""
    options = (
        click.option(
            "--restart-timeout",
            type=click.FloatRange(1.0, 3600.0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="Longest run of the restart of one broker.",
        ),
        click.option("--systemd", metavar="UNIT", help="Restart this unit of this machine."),
        click.option(
            "--restart-command",
            metavar="COMMAND",
            help="Command that restarts {broker}, also {host} and {port}; run without a shell.",
        ),
    )
    for option in options:
        verb = option(verb)
    return verb


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
    *,
    brokers: str,
    max_unavailable: str,
    canary: str,
    restart_command: str | None,
    systemd: str | None,
    restart_timeout: float,
    wanted_version: str,
    gate_timeout: int,
    accept_overload: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Restart every broker: drain it, restart it, wait until it is well, give bundles back.

    The leader pauses the balancing, drains and checks; this command runs the restarts, on this
    machine and as this user. If it is killed, `rollout resume` continues. A gate that does not open
    stops the rollout with the reason; the balancing then goes on until `resume` or `abort`.
    """
    hook = _hook(restart_command, systemd, restart_timeout)
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
        _drive(target, hook)


@click.command("resume", short_help="Continue a rollout.", epilog=_RESUME_EXAMPLES)
@hook_options
@reason_option
@change_options
@daemon_options
def resume(
    target: Target,
    *,
    restart_command: str | None,
    systemd: str | None,
    restart_timeout: float,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Continue a rollout that was paused, has stopped, or whose driver is gone.

    A broker whose restart failed is drained and restarted once more.
    """
    hook = _hook(restart_command, systemd, restart_timeout)
    change = Change("POST", f"{PATH}/resume", body=audit_fields(reason))
    found = send_dry_run(target, change)
    if confirm(target, f"continue rollout {found['id']}", dry_run=dry_run, yes=yes, rollout=found):
        send(target, change)
        _drive(target, hook)


def _hook(command: str | None, unit: str | None, timeout_s: float) -> Any:
    from broker_ctl.cli.rollout.hooks import CommandHook, systemd_hook

    if (command is None) == (unit is None):
        raise click.UsageError("give one of --restart-command and --systemd")
    if command is not None:
        return CommandHook.parse(command, timeout_s)
    assert unit is not None
    return systemd_hook(unit, timeout_s)


def _drive(target: Target, hook: Any) -> None:
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
