"""``broker-ctl bundles``: who owns which, and unload, split, merge and move by hand."""

from typing import Any

import click

from broker_ctl.cli.bundles.actions import EXAMPLES, move_bundle, owner_row
from broker_ctl.cli.bundles.bundle_loads import (
    LIST_COLUMNS,
    SORT_ORDERS,
    list_cells,
    rows_with_load,
    sort_rows,
)
from broker_ctl.cli.bundles.split_merge import merge, split
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup


@click.group(
    cls=VerbGroup, short_help="List, unload, split, merge and move bundles.", epilog=EXAMPLES
)
def command() -> None:
    """Manage bundles. A BUNDLE is tenant/namespace/0xLOW_0xHIGH, as `bundles list` prints it."""


@command.command(name="list", epilog=EXAMPLES)
@click.argument("namespace")
@click.option(
    "--sort",
    "order",
    type=click.Choice(SORT_ORDERS),
    default=SORT_ORDERS[0],
    show_default=True,
    help="Sort order: position in the hash ring, or highest throughput first.",
)
@daemon_options
def list_(target: Target, *, namespace: str, order: str) -> None:
    """List the bundles of NAMESPACE with their owners and their load.

    The leader provides the load of the busiest bundles of the cluster; "-" if it is unknown or
    there is no leader.
    """
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    rows = sort_rows(target.run(lambda client: rows_with_load(client, name)), order)
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", LIST_COLUMNS, map(list_cells, rows))


@command.command(epilog=EXAMPLES)
@click.argument("bundle")
@daemon_options
def owner(target: Target, *, bundle: str) -> None:
    """Show who owns BUNDLE."""
    from broker_ctl.core.model.bundle import Bundle

    name = Bundle.parse(bundle)
    row = target.run(lambda client: owner_row(client, name))
    if target.is_json:
        echo_json(row)
    else:
        _print_owners(target, [row])


@command.command(epilog=EXAMPLES)
@click.argument("bundle")
@change_options
@daemon_options
def unload(target: Target, *, bundle: str, dry_run: bool, yes: bool) -> None:
    """Unload BUNDLE from its owner; the next lookup places it again."""
    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.core.model.bundle import Bundle

    name = Bundle.parse(bundle)
    change = Change("PUT", bundle_path(name, "unload"))
    held = send_dry_run(target, change)["owner"]
    if held is None:
        report_result(target, "nothing", f"{name} has no owner: nothing to unload")
    elif confirm(target, f"unload {name} from {held}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {name} from {held}")


@command.command(epilog=EXAMPLES)
@click.argument("bundle")
@click.argument("destination", metavar="BROKER")
@change_options
@daemon_options
def move(target: Target, *, bundle: str, destination: str, dry_run: bool, yes: bool) -> None:
    """Move BUNDLE to BROKER; returns once BROKER serves it.

    Pauses and budgets do not apply.
    """
    move_bundle(target, bundle, destination, dry_run=dry_run, yes=yes)


command.add_command(split)
command.add_command(merge)


def _print_owners(target: Target, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", ("bundle", "owner", "token", "note"), (row.values() for row in rows))
