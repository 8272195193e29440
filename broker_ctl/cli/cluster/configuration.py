"""``broker-ctl configuration``: dynamic settings of all brokers."""

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_CONFIGURATION: Final = "/admin/v2/brokers/configuration"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl configuration list
  broker-ctl configuration show loadBalancerSheddingIntervalMinutes
  broker-ctl configuration set loadBalancerSheddingIntervalMinutes 0.5
  broker-ctl configuration set dryRun true --yes
  broker-ctl configuration delete dryRun
"""


@click.group(
    cls=VerbGroup, short_help="Show and override dynamic settings of all brokers.", epilog=_EXAMPLES
)
def command() -> None:
    """Manage overrides of dynamic settings, which apply to all brokers immediately until deleted.

    The settings that a broker starts with are in its own file: see `broker-ctl config`.
    """


@command.command(name="list", epilog=_EXAMPLES)
@daemon_options
def list_(target: Target) -> None:
    """List the dynamic settings with their values on this broker."""
    rows = target.run(_rows)
    _print(target, rows, rows)


@command.command(epilog=_EXAMPLES)
@click.argument("key")
@daemon_options
def show(target: Target, *, key: str) -> None:
    """Show the value of KEY on this broker, and its override."""
    row = next((row for row in target.run(_rows) if row["key"] == key), None)
    if row is None:
        raise click.ClickException(
            f"{key} is not a dynamic setting: see broker-ctl configuration list"
        )
    _print(target, row, [row])


@command.command(name="set", epilog=_EXAMPLES)
@click.argument("key")
@click.argument("value")
@change_options
@daemon_options
def set_(target: Target, *, key: str, value: str, dry_run: bool, yes: bool) -> None:
    """Override KEY with VALUE on all brokers."""
    change = Change("POST", f"{_CONFIGURATION}/{quote(key, safe='')}/{quote(value, safe='')}")
    sentence = f"override {key} with {value} on all brokers"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"set {key} to {value}")


@command.command(epilog=_EXAMPLES)
@click.argument("key")
@change_options
@daemon_options
def delete(target: Target, *, key: str, dry_run: bool, yes: bool) -> None:
    """Delete the override of KEY: each broker returns to the value with which it started."""
    change = Change("DELETE", f"{_CONFIGURATION}/{quote(key, safe='')}")
    if not send_dry_run(target, change)["was_overridden"]:
        report_result(target, "nothing", f"{key} is not overridden")
    elif confirm(target, f"delete the override of {key}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted the override of {key}")


async def _rows(client: "Client") -> list[dict[str, Any]]:
    names = await client.get(_CONFIGURATION)
    overrides = await client.get(f"{_CONFIGURATION}/values")
    effective = await client.get(f"{_CONFIGURATION}/runtime")
    return [
        {"key": name, "override": overrides.get(name), "effective": effective.get(name)}
        for name in names
    ]


def _print(target: Target, found: Any, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json(found)
    else:
        print_table("", ("key", "override", "effective"), (row.values() for row in rows))
