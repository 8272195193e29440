"""``broker-ctl rollout plan``: order, moves, greatest load, and the grace period of a stop."""

import math
import shlex
from collections.abc import Mapping
from typing import Any, Final

import click

from broker_ctl.cli.rollout.scope import PATH, scope_options, scope_query
from broker_ctl.cli.runtime.output import echo, echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.units import duration_text, percent_text

_RUNTIME: Final = "/admin/v2/brokers/configuration/runtime"
_SHUTDOWN: Final = "brokerShutdownTimeoutMs"
# Beside drain and shutdown: start of the command, and the stop of the process itself.
_SPARE_S: Final = 10
_MOST_RECEIVERS: Final = 4
_COLUMNS: Final = ("#", "restarts", "bundles", "go to", "fullest meanwhile", "drain")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl rollout plan
  broker-ctl rollout plan --canary broker-3:8080
  broker-ctl rollout plan --restart-command "ssh {host} sudo systemctl restart broker-ctl"
  broker-ctl rollout plan --max-unavailable zone --output json
"""


@click.command("plan", short_help="Show what a rollout would do.", epilog=_EXAMPLES)
@scope_options
@click.option(
    "--restart-command",
    metavar="COMMAND",
    help="Show what would be run for each broker; {broker}, {host} and {port} are filled in.",
)
@click.option("--accept-overload", is_flag=True, help="Accept that the rest carries too much.")
@daemon_options
def command(
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
    from broker_ctl.cli.rollout.hooks import CommandHook

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
