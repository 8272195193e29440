"""``broker-ctl bundles``: list, unload, split, merge and move bundles."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.bundles.actions import EXAMPLES, owner_row, owner_rows
from broker_ctl.cli.bundles.split_merge import merge, split
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo, echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.names import Namespace

_SORT_ORDERS: Final = ("bundle", "load")
_LIST_COLUMNS: Final = ("bundle", "owner", "token", "msg/s", "MiB/s", "note")
_CLUSTER: Final = "/control/v1/cluster"


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
    type=click.Choice(_SORT_ORDERS),
    default=_SORT_ORDERS[0],
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
    rows = _sort_rows(target.run(lambda client: _rows_with_load(client, name)), order)
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", _LIST_COLUMNS, map(_list_cells, rows))


@command.command(epilog=EXAMPLES)
@click.argument("bundle")
@daemon_options
def owner(target: Target, *, bundle: str) -> None:
    """Show the owner of BUNDLE."""
    from broker_ctl.core.model.bundle import Bundle

    name = Bundle.parse(bundle)
    row = target.run(lambda client: owner_row(client, name))
    if target.is_json:
        echo_json(row)
    else:
        print_table("", ("bundle", "owner", "token", "note"), [row.values()])


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
    import time

    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.cli.runtime.progress import spinner
    from broker_ctl.core.model.bundle import Bundle

    name = Bundle.parse(bundle)
    query = {"destinationBroker": destination, "by": audit_fields("")["by"]}
    change = Change("PUT", bundle_path(name, "unload"), query)
    held = send_dry_run(target, change)["from"]
    if held == destination:
        report_result(target, "nothing", f"{destination} already owns {name}")
        return
    source = f" from {held}" if held else ""
    sentence = f"move {name}{source} to {destination}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes):
        return
    began_s = time.monotonic()
    with spinner(target, sentence):
        send(target, change)
    took_s = time.monotonic() - began_s
    report_result(
        target, "moved", f"moved {name} to {destination} in {took_s:.1f} s", took_s=took_s
    )


command.add_command(split)
command.add_command(merge)


async def _rows_with_load(client: "Client", namespace: "Namespace") -> list[dict[str, Any]]:
    """The bundles in ring order with their load, None if unknown."""
    rows, loads = await owner_rows(client, namespace), await _loads(client)
    return [{**row, **_load_of(loads.get(row["bundle"], {}))} for row in rows]


async def _loads(client: "Client") -> dict[str, Mapping[str, Any]]:
    """The load of the busiest bundles of the cluster; empty without a leader."""
    from broker_ctl.errors import HttpError

    try:
        seen = await client.get(_CLUSTER)
    except HttpError as error:
        # Owners are known without a leader.
        echo(f"the load is unknown: {error}", err=True)
        return {}
    return {row["bundle"]: row for row in seen["bundles"]}


def _load_of(known: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: known.get(name) for name in ("msg_per_s", "throughput_bytes_per_s")}


def _sort_rows(rows: Iterable[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """The rows in ring order, or by load: highest first, unknown last."""
    if order == "bundle":
        return list(rows)
    return sorted(rows, key=_throughput, reverse=True)


def _throughput(row: Mapping[str, Any]) -> float:
    known: float | None = row["throughput_bytes_per_s"]
    return -1.0 if known is None else known


def _list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    from broker_ctl.core.rules.rules import MIB

    throughput = row["throughput_bytes_per_s"]
    mib = None if throughput is None else throughput / MIB
    return row["bundle"], row["owner"], row["token"], row["msg_per_s"], mib, row["note"]
