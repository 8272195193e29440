"""``broker-ctl namespaces``: create, list, unload and delete namespaces; set their clusters."""

from typing import TYPE_CHECKING, Final

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

_CREATE: Final = """\b
Examples:
  broker-ctl namespaces create shop/orders
  broker-ctl namespaces create shop/orders --bundles 16
"""
_LIST: Final = """\b
Examples:
  broker-ctl namespaces list
  broker-ctl namespaces list shop
"""
_UNLOAD: Final = """\b
Examples:
  broker-ctl namespaces unload shop/orders --dry-run
  broker-ctl namespaces unload shop/orders --yes
"""
_DELETE: Final = """\b
Examples:
  broker-ctl namespaces delete shop/orders --yes
"""
_IN_CLUSTERS: Final = """\b
Examples:
  broker-ctl namespaces get-clusters shop/orders
  broker-ctl namespaces set-clusters shop/orders --cluster east --cluster west --dry-run
"""


@click.group(
    cls=VerbGroup,
    short_help="Create, list, unload and delete namespaces; set their clusters.",
    epilog=_CREATE,
)
def command() -> None:
    """Manage namespaces: named sets of topics that share one hash ring of bundles."""


@command.command(epilog=_CREATE)
@click.argument("namespace")
@click.option(
    "--bundles",
    type=click.IntRange(1, 65_536),
    help="Number of bundles, of equal size.  [default: defaultNumberOfNamespaceBundles]",
)
@change_options
@daemon_options
def create(
    target: Target, *, namespace: str, bundles: int | None, dry_run: bool, yes: bool
) -> None:
    """Create NAMESPACE (tenant/name); `broker-ctl tenants create` creates its tenant."""
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    body = None if bundles is None else {"bundles": {"numBundles": bundles}}
    change = Change("PUT", namespace_path(name), body=body)
    found = send_dry_run(target, change)
    sentence = f"create {name} with {found['bundles']} bundles"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "created", f"created {name} with {found['bundles']} bundles")


@command.command(name="list", epilog=_LIST)
@click.argument("tenant", required=False)
@daemon_options
def list_(target: Target, *, tenant: str | None) -> None:
    """List the namespaces of TENANT, or of all tenants."""
    names = target.run(lambda client: _names(client, tenant))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("namespace",), ([name] for name in names))


@command.command(epilog=_DELETE)
@click.argument("namespace")
@change_options
@daemon_options
def delete(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Delete NAMESPACE; refused while any of its bundles has an owner."""
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    change = Change("DELETE", namespace_path(name))
    if check_and_confirm(target, change, f"delete {name}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted {name}")


@command.command(epilog=_UNLOAD)
@click.argument("namespace")
@change_options
@daemon_options
def unload(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Unload all bundles of NAMESPACE from their owners.

    The next lookup of a topic places its bundle again. `delete` requires this first.
    """
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    change = Change("PUT", f"{namespace_path(name)}/unload")
    owners = send_dry_run(target, change)["owners"]
    if not owners:
        report_result(target, "nothing", f"no bundle of {name} has an owner: nothing to unload")
        return
    whose = ", ".join(f"{count} of {broker}" for broker, count in sorted(owners.items()))
    sentence = f"unload {sum(owners.values())} bundles of {name}: {whose}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, owners=owners):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {sum(owners.values())} bundles of {name}")


@command.command(name="get-clusters", epilog=_IN_CLUSTERS)
@click.argument("namespace")
@daemon_options
def get_clusters(target: Target, *, namespace: str) -> None:
    """List the clusters of NAMESPACE."""
    path = _replication_path(namespace)
    names = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("cluster",), ([name] for name in names))


@command.command(name="set-clusters", epilog=_IN_CLUSTERS)
@click.argument("namespace")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    required=True,
    help="Cluster that the tenant may use; repeatable.",
)
@change_options
@daemon_options
def set_clusters(
    target: Target, *, namespace: str, clusters: tuple[str, ...], dry_run: bool, yes: bool
) -> None:
    """Set the clusters of NAMESPACE, replacing all previous ones."""
    change = Change("POST", _replication_path(namespace), body=list(clusters))
    sentence = f"set the clusters of {namespace} to {', '.join(clusters)}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"{namespace} has the clusters {', '.join(clusters)}")


def _replication_path(namespace: str) -> str:
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    return f"{namespace_path(Namespace.parse(namespace))}/replication"


async def _names(client: "Client", tenant: str | None) -> list[str]:
    from urllib.parse import quote

    tenants = [tenant] if tenant else await client.get("/admin/v2/tenants")
    lists = [await client.get(f"/admin/v2/namespaces/{quote(each, safe='')}") for each in tenants]
    return [name for names in lists for name in names]
