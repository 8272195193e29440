"""``broker-ctl rollout``: restart every broker of a cluster, one after the other."""

import math
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.rollout_driver import (
    PATH,
    RolloutProgress,
    print_rollout,
    scope_body,
    scope_options,
    scope_query,
)
from broker_ctl.cli.runtime.output import duration_text, echo, echo_json, percent_text, print_table
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.secret_files import require_private
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    VerbGroup,
    audit_fields,
    change_options,
    check_and_confirm,
    confirm,
    reason_option,
    report_result,
    send,
    send_dry_run,
)

if TYPE_CHECKING:
    from broker_ctl.cli.rollout_driver import RestartHook


# ``broker-ctl rollout plan``: order, moves, greatest load, and the grace period of a stop.


_RUNTIME: Final = "/admin/v2/brokers/configuration/runtime"
_SHUTDOWN: Final = "brokerShutdownTimeoutMs"
# Beside drain and shutdown: start of the command, and the stop of the process itself.
_SPARE_S: Final = 10
_MOST_RECEIVERS: Final = 4
_COLUMNS: Final = ("#", "restarts", "bundles", "go to", "fullest meanwhile", "drain")
_PLAN_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout plan
  broker-ctl rollout plan --canary broker-3:8080
  broker-ctl rollout plan --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout plan --max-unavailable zone --output json
"""


@click.command(
    "plan",
    cls=VerbCommand,
    short_help="Show what a rollout would do.",
    epilog=_PLAN_EXAMPLES,
)
@scope_options
@click.option(
    "--restart-command",
    metavar="COMMAND",
    help="Show what would be run for each broker; {broker}, {host} and {port} are filled in.",
)
@click.option("--accept-overload", is_flag=True, help="Accept that the rest carries too much.")
@daemon_options
def plan(
    target: Target,
    *,
    brokers: str,
    max_unavailable: str,
    canary: str,
    restart_command: str | None,
    accept_overload: bool,
) -> None:
    """Show in which order the brokers would restart, and where their bundles go meanwhile.

    Failure domains restart one after the other, the controller and the leader last. The bundles of
    a broker go to those that have restarted already, so that each moves about once. The exit code
    is 1 if the rest could not carry the load, unless --accept-overload is given.

    The grace period is what a preStop hook or ExecStop with `drain --self --wait` needs.
    """
    query = scope_query(brokers, max_unavailable, canary)
    row = target.run(lambda client: client.get(f"{PATH}/plan", query))
    row["grace_period_s"] = _grace_period_s(target, row)
    row["restart_commands"] = _restart_commands(row, restart_command)
    if target.is_json:
        echo_json(row)
    else:
        _print_plan(row)
    if row["refusal"] and not accept_overload:
        raise click.ClickException(f"{row['refusal']}; --accept-overload accepts it")


def _restart_commands(row: Mapping[str, Any], command: str | None) -> dict[str, str]:
    """What `rollout run` would run for each broker."""
    from broker_ctl.cli.rollout_driver import CommandHook

    if command is None:
        return {}
    hook = CommandHook.parse(command, 1.0)
    names = [name for batch in row["batches"] for name in batch["brokers"]]
    return {name: shlex.join(hook.words_for(name)) for name in names}


def _grace_period_s(target: Target, row: Mapping[str, Any]) -> int | None:
    """The grace period of daemons; None: brokers of another kind are restarted."""
    if row["from_outside"]:
        return None
    runtime = target.run(lambda client: client.get(_RUNTIME))
    return grace_period_s(row["longest_drain_s"], runtime)


def grace_period_s(drain_s: float, runtime: Mapping[str, str]) -> int:
    """Seconds from the request to stop a broker until it may be killed."""
    return math.ceil(drain_s + int(runtime[_SHUTDOWN]) / 1000) + _SPARE_S


def _print_plan(row: Mapping[str, Any]) -> None:
    print_table(
        "",
        _COLUMNS,
        (
            (
                number,
                ", ".join(batch["brokers"]),
                batch["moves"],
                _receivers(batch["receivers"]),
                f"{batch['fullest']} {_usage(batch['highest_usage_ratio'])}",
                duration_text(batch["drain_s"]),
            )
            for number, batch in enumerate(row["batches"], 1)
        ),
    )
    echo(
        f"{row['moves']} moves, of which {row['moves_given_back']} fill the last brokers again; "
        f"at least {row['least_moves']} are necessary"
    )
    echo(
        f"about {duration_text(row['duration_s'])} if a restart takes 30 s; no broker will carry "
        f"more than {_usage(row['highest_usage_ratio'])}"
    )
    for name, words in row["restart_commands"].items():
        echo(f"{name}: {words}")
    grace_s = row["grace_period_s"]
    if grace_s is not None:
        echo(f"terminationGracePeriodSeconds: {grace_s} or TimeoutStopSec={grace_s} for a drain")


def _usage(ratio: float | None) -> str:
    return "more than it has" if ratio is None else percent_text(ratio)


def _receivers(found: Mapping[str, int]) -> str:
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{broker_id} ({count})" for broker_id, count in ordered[:_MOST_RECEIVERS]]
    more = len(ordered) - len(shown)
    return ", ".join([*shown, f"{more} more"] if more else shown)


# Options that say how the driver restarts a broker.


V = TypeVar("V", bound=Callable[..., None])

_IN_CLUSTER: Final = "https://kubernetes.default.svc"
_SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def hook_options(verb: V) -> V:
    """Add --restart-command, --systemd, --kubernetes and what belongs to them; see `hook_of`."""
    options = (
        click.option(
            "--restart-timeout",
            type=click.FloatRange(1.0, 3600.0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="Longest run of the restart of one broker.",
        ),
        click.option(
            "--kubernetes-credentials",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="DIRECTORY",
            help=f"Directory with token, ca.crt and namespace.  [default: {_SERVICE_ACCOUNT}]",
        ),
        click.option(
            "--kubernetes-api",
            default=_IN_CLUSTER,
            show_default=True,
            metavar="URL",
            help="URL of the Kubernetes API.",
        ),
        click.option(
            "--statefulset",
            metavar="NAME",
            help="StatefulSet of the brokers; with --kubernetes, only its pods are deleted.",
        ),
        click.option(
            "--kubernetes",
            is_flag=True,
            help="Delete the pod of a broker; its StatefulSet (OnDelete) creates it again.",
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


def hook_of(options: dict[str, Any]) -> "RestartHook":
    """The hook by the values of `hook_options`.

    Raises:
        UsageError: not exactly one way to restart was given, or it is incomplete.
    """
    from broker_ctl.cli.rollout_driver import CommandHook, KubernetesHook, systemd_hook

    command, unit, is_pod = options["restart_command"], options["systemd"], options["kubernetes"]
    if [command is not None, unit is not None, is_pod].count(True) != 1:
        raise click.UsageError("give one of --restart-command, --systemd and --kubernetes")
    timeout_s = options["restart_timeout"]
    if command is not None:
        return CommandHook.parse(command, timeout_s)
    if unit is not None:
        return systemd_hook(unit, timeout_s)
    if options["statefulset"] is None:
        raise click.UsageError("--kubernetes needs --statefulset: only pods of it are deleted")
    # The token of the service account deletes pods.
    require_private(options["kubernetes_api"])
    credentials = options["kubernetes_credentials"] or Path(_SERVICE_ACCOUNT)
    return KubernetesHook(options["statefulset"], options["kubernetes_api"], credentials, timeout_s)


# ``broker-ctl rollout run`` and ``resume``: begin a rollout, or drive one that has begun.


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


@click.command(
    "run",
    cls=VerbCommand,
    short_help="Restart all brokers in turn.",
    epilog=_RUN_EXAMPLES,
)
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
    change = VerbChange("PUT", PATH, body=body)
    found = send_dry_run(target, change)
    if confirm(target, _sentence(found), dry_run=dry_run, yes=yes, plan=found):
        send(target, change)
        drive(target, restarting)


@click.command("resume", cls=VerbCommand, short_help="Continue a rollout.", epilog=_RESUME_EXAMPLES)
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
    change = VerbChange("POST", f"{PATH}/resume", body=audit_fields(reason))
    found = send_dry_run(target, change)
    if confirm(target, f"continue rollout {found['id']}", dry_run=dry_run, yes=yes, rollout=found):
        send(target, change)
        drive(target, restarting)


def drive(target: Target, hook: "RestartHook") -> None:
    """Restart what the leader empties until the rollout ends or stops, and print the result."""
    import asyncio

    from broker_ctl.cli.rollout_driver import Driver

    progress = RolloutProgress(target)
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


# ``broker-ctl rollout status``, ``pause`` and ``abort``.


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


@click.command(cls=VerbCommand, short_help="Show how far a rollout is.", epilog=_STATUS_EXAMPLES)
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


@click.command(cls=VerbCommand, short_help="Begin no further broker.", epilog=_PAUSE_EXAMPLES)
@reason_option
@change_options
@daemon_options
def pause(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Begin no further broker: the one in progress ends, and `rollout resume` continues."""
    _act(target, "pause", reason, dry_run=dry_run, yes=yes)


@click.command(cls=VerbCommand, short_help="End a rollout.", epilog=_ABORT_EXAMPLES)
@reason_option
@change_options
@daemon_options
def abort(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """End a rollout: its drains and its pause of the balancing end, nothing else restarts.

    A pause and drains that were there before stay.
    """
    _act(target, "abort", reason, dry_run=dry_run, yes=yes)


def _act(target: Target, act: str, reason: str, *, dry_run: bool, yes: bool) -> None:
    change = VerbChange("POST", f"{PATH}/{act}", body=audit_fields(reason))
    if check_and_confirm(target, change, f"{act} the rollout", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, row["state"], f"rollout {row['id']} is {row['state']}", rollout=row)


def _stage(row: Any) -> Stage:
    words = f"{row['state']}, ETA {duration_text(row['eta_s'])}"
    return Stage(row["restarted"], len(row["brokers"]), words)


# ``broker-ctl rollout rollback``: restart once more what a rollout has restarted.


_ROLLBACK_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout rollback --restart-command "ssh {host} install-earlier-release"
"""
# A broker in one of these may run what the rollout has brought.
_TOUCHED: Final = frozenset({"restarting", "checking", "done", "failed"})
_ROLLBACK_OVER: Final = frozenset({"done", "aborted"})


@click.command(
    "rollback",
    cls=VerbCommand,
    short_help="Restart again what has restarted.",
    epilog=_ROLLBACK_EXAMPLES,
)
@hook_options
@click.option("--accept-overload", is_flag=True, help="Begin though the rest carries too much.")
@reason_option
@change_options
@daemon_options
def rollback(
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
    again = VerbChange(
        "PUT",
        PATH,
        body={**scope_body(",".join(names), "1", ""), "accept_overload": accept_overload, **by},
    )
    is_over = row["state"] in _ROLLBACK_OVER
    first = again if is_over else VerbChange("POST", f"{PATH}/abort", body=by)
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


# ``broker-ctl rollout``: restart every broker of a cluster, one after the other.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout plan
  broker-ctl rollout run --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout status --wait
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Restart or upgrade every broker of a cluster without an outage."""


for verb in (plan, run, status, pause, resume, abort, rollback):
    command.add_command(verb)
