"""``broker-ctl tenants``: owners of namespaces, and their clusters."""

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_TENANTS: Final = "/admin/v2/tenants"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl tenants list
  broker-ctl tenants create shop --yes
  broker-ctl tenants create shop --allowed-cluster east --allowed-cluster west --admin-role seller
  broker-ctl tenants get shop --output json
  broker-ctl tenants update shop --allowed-cluster east --dry-run
  broker-ctl tenants delete shop --yes
"""
_CLUSTERS: Final = click.option(
    "--allowed-cluster",
    "clusters",
    multiple=True,
    metavar="CLUSTER",
    help="Cluster that its namespaces may use; repeatable.  [default: all clusters]",
)
_ROLES: Final = click.option(
    "--admin-role",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="Role that administers the tenant, enforced by the broker processes; repeatable.",
)


@click.group(cls=VerbGroup, short_help="Create, show, change and delete tenants.", epilog=_EXAMPLES)
def command() -> None:
    """Manage tenants: each namespace belongs to one, and uses only clusters allowed to it."""


def _path(name: str) -> str:
    return f"{_TENANTS}/{quote(name, safe='')}"


@command.command(name="list", epilog=_EXAMPLES)
@daemon_options
def list_(target: Target) -> None:
    """List all tenants."""
    names = target.run(lambda client: client.get(_TENANTS))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("tenant",), ([name] for name in names))


@command.command(epilog=_EXAMPLES)
@click.argument("tenant")
@daemon_options
def get(target: Target, *, tenant: str) -> None:
    """Show TENANT: its clusters and its administrators."""
    info = target.run(lambda client: client.get(_path(tenant)))
    if target.is_json:
        echo_json(info)
    else:
        print_facts("", {name: " ".join(map(str, values)) for name, values in info.items()})


@command.command(epilog=_EXAMPLES)
@click.argument("tenant")
@_CLUSTERS
@_ROLES
@change_options
@daemon_options
def create(
    target: Target,
    *,
    tenant: str,
    clusters: tuple[str, ...],
    roles: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Create TENANT."""
    info = target.run(lambda client: _info(client, clusters, roles))
    sentence = f"create tenant {tenant}, allowed in {', '.join(info['allowedClusters'])}"
    change = Change("PUT", _path(tenant), body=info)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created tenant {tenant}")


@command.command(epilog=_EXAMPLES)
@click.argument("tenant")
@_CLUSTERS
@_ROLES
@change_options
@daemon_options
def update(
    target: Target,
    *,
    tenant: str,
    clusters: tuple[str, ...],
    roles: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the clusters or administrators of TENANT; omitted options keep their values."""
    old = target.run(lambda client: client.get(_path(tenant)))
    info = {
        **old,
        "allowedClusters": list(clusters) or old["allowedClusters"],
        "adminRoles": list(roles) or old["adminRoles"],
    }
    sentence = (
        f"let tenant {tenant} use {', '.join(info['allowedClusters'])}, "
        f"administered by {', '.join(info['adminRoles']) or 'nobody'}"
    )
    change = Change("POST", _path(tenant), body=info)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"updated tenant {tenant}")


@command.command(epilog=_EXAMPLES)
@click.argument("tenant")
@change_options
@daemon_options
def delete(target: Target, *, tenant: str, dry_run: bool, yes: bool) -> None:
    """Delete TENANT; refused while it has namespaces."""
    change = Change("DELETE", _path(tenant))
    if check_and_confirm(target, change, f"delete tenant {tenant}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted tenant {tenant}")


async def _info(
    client: "Client", clusters: tuple[str, ...], roles: tuple[str, ...]
) -> dict[str, Any]:
    """A new tenant; by default it may use all clusters, as with pulsar-admin."""
    allowed = list(clusters) or await client.get("/admin/v2/clusters")
    return {"adminRoles": list(roles), "allowedClusters": allowed}
